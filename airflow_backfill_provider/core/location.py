"""Where a table lies: an absolute local folder or an object-store URI, in one canonical spelling."""

from __future__ import annotations

import posixpath
import re

from airflow_backfill_provider.core.errors import InvalidJobError

_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*):/+", re.IGNORECASE)
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")


def canonical_location(value: str) -> str:
    """
    Return the one spelling of a table's location that every part of the package uses.

    :param value: an absolute local path, a ``file:`` URI, or an object-store URI with a bucket.
    :returns: a local path without scheme, ``.``, ``..`` or trailing slash, or the URI likewise.
    :raises InvalidJobError: for a relative path, control characters, or a ``%`` (the Delta readers on both
        sides disagree on whether it is an escape, so two of them could mean two different folders).
    """
    if not value.strip():
        raise InvalidJobError("a table's location is empty; give an absolute path or a URI")
    if _CONTROL_CHARACTERS.search(value):
        raise InvalidJobError(f"location {value!r} has control characters; rename the folder")
    if "%" in value:
        raise InvalidJobError(f"location {value!r} has a '%', which Delta readers disagree on; rename the folder")
    scheme = _SCHEME.match(value)
    if scheme is None or scheme.group(1).lower() == "file":
        path = value if scheme is None else "/" + value[scheme.end() :]
        if not path.startswith("/"):
            raise InvalidJobError(
                f"location {value!r} is relative; scheduler, worker and Spark each have their own working "
                "directory, so give an absolute path or a URI"
            )
        return _without_traversal("/" + path.lstrip("/"), value)
    bucket, _, path = value[scheme.end() :].partition("/")
    if not bucket or not value[: scheme.end()].endswith("//") or value[: scheme.end()].endswith("///"):
        raise InvalidJobError(f"location {value!r} names no bucket or host; write it as scheme://bucket/folder")
    if not path.strip("/"):
        raise InvalidJobError(f"location {value!r} is a whole bucket; give a folder in it")
    return f"{scheme.group(1).lower()}://{bucket}{_without_traversal('/' + path.lstrip('/'), value)}"


def is_local(location: str) -> bool:
    """Tell whether a canonical location is a folder of this machine's file system."""
    return location.startswith("/")


def parent(location: str) -> str:
    """Return the folder that holds a canonical location."""
    return location.rsplit("/", 1)[0]


def contains(outer: str, inner: str) -> bool:
    """Tell whether one canonical location is the other or lies inside it."""
    return inner == outer or inner.startswith(outer + "/")


def _without_traversal(path: str, written: str) -> str:
    normal = posixpath.normpath(path)
    if normal == "/":
        raise InvalidJobError(f"location {written!r} is a root folder; give a table's own folder")
    return normal
