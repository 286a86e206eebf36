"""Check that Spark is complete in this environment.

``pyspark`` and ``pyspark-client`` install files into the same folder. With two versions of them the import
breaks, and ``pip check`` stays silent.
"""

from __future__ import annotations

import sys
from importlib.metadata import version


def main() -> int:
    """Import both modes of Spark and compare the versions."""
    versions = {name: version(name) for name in ("pyspark", "pyspark-client")}
    try:
        import pyspark
        from pyspark import SparkContext  # noqa: F401  classic mode
        from pyspark.sql.connect.session import SparkSession  # noqa: F401  Spark Connect
    except ImportError as error:
        print(f"Spark is broken in this environment ({versions}): {error}", file=sys.stderr)
        return 1
    if set(versions.values()) != {pyspark.__version__}:
        print(f"Spark's versions differ: {versions}, imported {pyspark.__version__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
