"""Locations of tables: absolute local folders or object-store URIs, in canonical form."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from airflow_backfill_provider.core.errors import InvalidJobError

_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*):/+", re.IGNORECASE)
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")
_UNLIKE_IN_URIS = re.compile(r"[][#?|^\\]")
"""deltalake ends a URI at ``#`` and ``?``, and cannot open one with the others. Spark takes all of them as they are."""

_SAME_STORES = {"s3://": "s3a://", "s3n://": "s3a://", "abfs://": "abfss://"}
"""Schemes that reach the same store as another one."""

_ONE_SCHEME = re.compile("^(?:" + "|".join(_SAME_STORES) + ")")


def canonical_location(value: str) -> str:
    """
    Return the canonical form of a table's location.

    :param value: an absolute local path, a ``file:`` URI, or an object-store URI with a bucket.
    :returns: a local path without scheme, ``.``, ``..`` or trailing slash, or a URI likewise.
    :raises InvalidJobError: for a relative path, control characters, or a ``%``. Spark and deltalake disagree on
        whether a ``%`` begins an escape, so they could use different folders. The same is true of some characters in
        URIs.
    """
    if not value.strip():
        raise InvalidJobError("a table's location is empty; give an absolute path or a URI")
    if _CONTROL_CHARACTERS.search(value):
        raise InvalidJobError(f"location {value!r} contains control characters; rename the folder")
    if "%" in value:
        raise InvalidJobError(
            f"location {value!r} contains a '%', which Delta readers interpret differently; rename the folder"
        )
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
        raise InvalidJobError(f"location {value!r} has no bucket or host; write it as scheme://bucket/folder")
    if found := _UNLIKE_IN_URIS.search(path):
        raise InvalidJobError(
            f"location {value!r} contains a {found.group()!r}, which Delta readers interpret differently in URIs; "
            "choose another name"
        )
    if not path.strip("/"):
        raise InvalidJobError(f"location {value!r} is a whole bucket; give a folder inside it")
    return f"{scheme.group(1).lower()}://{bucket}{_without_traversal('/' + path.lstrip('/'), value)}"


def is_local(location: str) -> bool:
    """Return whether a canonical location is a local folder."""
    return location.startswith("/")


def parent(location: str) -> str:
    """Return the parent folder of a canonical location."""
    return location.rsplit("/", 1)[0]


def default_state(view: str, job: str) -> str:
    """Return the folder of a job's control tables if its definition gives none: beside the view."""
    return f"{parent(view)}/_backfill/{job}"


def contains(outer: str, inner: str) -> bool:
    """Return whether ``inner`` is ``outer`` or lies inside it; both are canonical locations."""
    return inner == outer or inner.startswith(outer + "/")


def nested(folders: Mapping[str, str]) -> tuple[str, str] | None:
    """
    Find two folders of which one lies in the other, or which are the same.

    :param folders: canonical locations, by the name of their field.
    :returns: the names of the inner and the outer one; ``None`` if all lie apart.
    """
    places = {name: _ONE_SCHEME.sub(_first_scheme, folder, count=1) for name, folder in folders.items()}
    for outer, outer_folder in places.items():
        for inner, inner_folder in places.items():
            if outer != inner and contains(outer_folder, inner_folder):
                return inner, outer
    return None


def _first_scheme(written: re.Match[str]) -> str:
    return _SAME_STORES[written.group()]


def _without_traversal(path: str, written: str) -> str:
    normal = posixpath.normpath(path)
    if normal == "/":
        raise InvalidJobError(f"location {written!r} is a root folder; give a folder for the table")
    return normal
