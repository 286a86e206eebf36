"""
The folders and the connections that a deployment allows jobs to use.

A user who may trigger a DAG may choose a job's tables, and the worker reads and writes them with its own rights. So a
deployment can restrict where tables and other files may lie. Symbolic links are resolved first, so they don't lead out
of the folders. A connection may lead anywhere, so the ids that jobs may name can be restricted, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictStr, TypeAdapter, ValidationError

from airflow_backfill_provider.core.errors import (
    ConnectionNotAllowedError,
    InvalidJobError,
    LocationNotAllowedError,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.location import canonical_location, contains
from airflow_backfill_provider.lake.store.real_folders import real_folder

ROOTS_VARIABLE = "AIRFLOW_BACKFILL_ALLOWED_ROOTS"

CONNECTIONS_VARIABLE = "AIRFLOW_BACKFILL_ALLOWED_CONNECTIONS"

_IDS = TypeAdapter(list[StrictStr])
_ROOTS = TypeAdapter(Annotated[list[StrictStr], Field(min_length=1)])


def require_allowed(job: BackfillJob) -> None:
    """
    Refuse a job with a table or a file outside the allowed folders, or with a connection that is not allowed.

    If no folders are configured, every folder is allowed; the same holds for connections.

    :raises LocationNotAllowedError: with the field and the roots, or because the variable is invalid.
    :raises ConnectionNotAllowedError: with the connection, or because the variable is invalid.
    """
    _require_connections_allowed(job.connection_ids)
    for name, file in job.upstream_files.items():
        _require_file_allowed(name, file)
    for name, location in (
        *job.upstream_folders.items(),
        ("view_path" if job.view_name else "materialized_view", job.view_location),
        ("backfill_from.path", job.backfill_from.path if job.backfill_from else ""),
        ("state", job.state),
    ):
        # The locations of tables that are named in a catalog are checked when they are known.
        if location:
            require_location_allowed(name, location)


def require_restricted(what: str) -> None:
    """
    Refuse something that is safe only in a deployment that restricts where tables may lie.

    :param what: what is refused otherwise, for the message.
    :raises LocationNotAllowedError: if no folders are configured.
    """
    if not os.environ.get(ROOTS_VARIABLE):
        raise LocationNotAllowedError(
            f"{what} is refused, because it may name any table that the worker can read or write; choose a job of the "
            f"deployment, or ask an administrator to set {ROOTS_VARIABLE} to the folders that jobs may use"
        )


def _require_file_allowed(name: str, file: str) -> None:
    if not os.environ.get(ROOTS_VARIABLE):
        return
    try:
        # As the system opens it: a link before .. leads elsewhere than the path reads.
        place = str(Path(file).resolve())
    except (OSError, RuntimeError, ValueError):
        raise LocationNotAllowedError(f"{name}: its value is no path of a file; write an absolute path") from None
    require_location_allowed(name, place)


def _require_connections_allowed(connection_ids: Iterable[str]) -> None:
    text = os.environ.get(CONNECTIONS_VARIABLE)
    if not text:
        return
    try:
        allowed = _IDS.validate_json(text)
    except ValidationError:
        # If the variable is invalid, allow nothing rather than everything.
        raise ConnectionNotAllowedError(
            f'{CONNECTIONS_VARIABLE} is not a list of connection ids; write it as ["shop_db", "events"]'
        ) from None
    for connection_id in connection_ids:
        if connection_id not in allowed:
            raise ConnectionNotAllowedError(
                f"upstream: the connection {connection_id} is not one that {CONNECTIONS_VARIABLE} allows; name another "
                "one, or ask an administrator to add it to the variable"
            )


def require_location_allowed(name: str, location: str) -> None:
    """
    Refuse a location outside the allowed roots.

    :param name: the field with the location, for the message.
    :param location: canonical.
    :raises LocationNotAllowedError: as :func:`require_allowed`.
    """
    text = os.environ.get(ROOTS_VARIABLE)
    if not text:
        return
    roots = _roots(text)
    if not any(contains(real_folder(root), real_folder(location)) for root in roots):
        raise LocationNotAllowedError(
            f"{name}: {location} lies outside the folders that {ROOTS_VARIABLE} allows ({', '.join(roots)}); "
            "choose a location inside one of them, or ask an administrator to change the variable"
        )


def _roots(text: str) -> list[str]:
    try:
        return [canonical_location(root) for root in _ROOTS.validate_json(text)]
    except (ValidationError, InvalidJobError):
        # If the variable is invalid, allow nothing rather than everything.
        raise LocationNotAllowedError(
            f'{ROOTS_VARIABLE} is not a list of folders; write it as ["/folder", "s3a://bucket/folder"]'
        ) from None
