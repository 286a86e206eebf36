"""
An archive of the classes that Spark and Delta load. With it, Spark on one machine starts in about half the time.

Java maps the archive into memory instead of reading, checking and linking some twenty thousand classes. A small
backfill in a JVM that records its loaded classes creates the archive once, in the folder of Delta's jars. An archive
fits one Java, one Spark and one set of jars. Its name depends on these, and Java ignores an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def archive_path(jars: Path, java: str) -> Path | None:
    """
    Return the path of the archive for this Java, this Spark and some jars; it need not exist.

    :param jars: the folder of Delta's jars.
    :param java: the command that starts Java.
    :returns: ``None`` if there is no Java or no Spark.
    """
    found = shutil.which(java)
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    if found is None:
        return None
    binary = Path(found).resolve()
    used = [str(binary), str(binary.stat().st_mtime_ns), spark, *sorted(jar.name for jar in jars.glob("*.jar"))]
    return jars / f"classes-{hashlib.sha256('|'.join(used).encode()).hexdigest()[:16]}.jsa"


def java_options(archive: Path) -> str:
    """Return the options that make Java use an archive, or start without it if it does not fit."""
    return f'"-XX:SharedArchiveFile={archive}" -Xshare:auto {QUIET}'
