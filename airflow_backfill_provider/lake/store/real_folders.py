"""The folders that locations really are: a local path may lead through symbolic links."""

from __future__ import annotations

import os

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.location import is_local, nested


def real_folder(location: str) -> str:
    """Return a canonical location without symbolic links; one in an object store has none."""
    return os.path.realpath(location) if is_local(location) else location


def require_apart(job: BackfillJob) -> None:
    """
    Refuse a job of whose folders one lies in another through a symbolic link: VACUUM of the outer one would delete it.

    :raises InvalidJobError: with both fields.
    """
    folders = job.separate_folders
    real = {name: real_folder(folder) for name, folder in folders.items()}
    if found := nested(real):
        inner, outer = found
        raise InvalidJobError(
            f"{inner} ({folders[inner]}) lies in {outer} ({folders[outer]}) through a symbolic link: they are "
            f"{real[inner]} and {real[outer]}; give each its own folder"
        )
