"""
The folders that a deployment allows jobs to read and write.

A user who may trigger a DAG may choose a job's tables, and the worker reads and writes them with its own rights. So a
deployment can restrict where tables may lie. Symbolic links are resolved first, so they don't lead out of the folders.
"""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import Field, StrictStr, TypeAdapter, ValidationError

from airflow_backfill_provider.core.errors import InvalidJobError, LocationNotAllowedError
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.location import canonical_location, contains
from airflow_backfill_provider.lake.real_folders import real_folder

ROOTS_VARIABLE = "AIRFLOW_BACKFILL_ALLOWED_ROOTS"

_ROOTS = TypeAdapter(Annotated[list[StrictStr], Field(min_length=1)])


def require_allowed(job: BackfillJob) -> None:
    """
    Refuse a job with a table outside the allowed folders. If none are configured, every folder is allowed.

    :raises LocationNotAllowedError: with the field and the roots, or because the variable is invalid.
    """
    for name, location in (
        *job.upstream.folders.items(),
        ("view_path" if job.view_name else "materialized_view", job.view_location),
        ("state", job.state),
    ):
        # The locations of tables that are named in a catalog are checked when they are known.
        if location:
            require_location_allowed(name, location)


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
