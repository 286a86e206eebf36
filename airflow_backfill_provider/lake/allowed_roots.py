"""
Under which folders a deployment lets jobs read and write.

Whoever may trigger a DAG may name a job's tables, and those are reached with the worker's rights. So the deployment can
say where they have to lie; a symbolic link does not lead out of there.
"""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import Field, StrictStr, TypeAdapter, ValidationError

from airflow_backfill_provider.core.errors import InvalidJobError, LocationNotAllowedError
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.location import canonical_location, contains, is_local

ROOTS_VARIABLE = "AIRFLOW_BACKFILL_ALLOWED_ROOTS"

_ROOTS = TypeAdapter(Annotated[list[StrictStr], Field(min_length=1)])


def require_allowed(job: BackfillJob) -> None:
    """
    Refuse a job one of whose tables lies elsewhere than this process's environment allows; without a word of it, none.

    :raises LocationNotAllowedError: naming the field and the roots, or saying that the variable cannot be understood.
    """
    for name, location in (
        *job.upstream.folders.items(),
        ("materialized_view", job.materialized_view),
        ("state", job.state),
    ):
        require_location_allowed(name, location)


def require_location_allowed(name: str, location: str) -> None:
    """
    Refuse a location that lies under none of the allowed roots.

    :param name: what it is the location of, for the message.
    :param location: canonical.
    :raises LocationNotAllowedError: as :func:`require_allowed`.
    """
    text = os.environ.get(ROOTS_VARIABLE)
    if not text:
        return
    roots = _roots(text)
    if not any(contains(_resolved(root), _resolved(location)) for root in roots):
        raise LocationNotAllowedError(
            f"{name}: {location} lies under none of the folders that {ROOTS_VARIABLE} allows ({', '.join(roots)}); "
            "choose a folder there, or have the variable changed"
        )


def _roots(text: str) -> list[str]:
    try:
        return [canonical_location(root) for root in _ROOTS.validate_json(text)]
    except (ValidationError, InvalidJobError):
        # Nothing is allowed rather than everything.
        raise LocationNotAllowedError(
            f'{ROOTS_VARIABLE} cannot be understood; write it as ["/folder", "s3a://bucket/folder"]'
        ) from None


def _resolved(location: str) -> str:
    return os.path.realpath(location) if is_local(location) else location
