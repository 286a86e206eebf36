"""Opens the job of the file on the command line, and identifies the user."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

from airflow_backfill_provider.applications.spark_settings import storage_options_from_environment
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import JobNotCreatedError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.successor_tables import active_store


def open_job(file: Path) -> Backfill:
    """
    Open the job in a file, without checking that it was created.

    :raises InvalidJobError: if the definition is not valid.
    :raises StorageOptionsError: if the object store's options in the environment are not valid.
    """
    return Backfill(BackfillJob.from_yaml(file), storage_options_from_environment())


def created_job(file: Path) -> tuple[Backfill, JobSettings]:
    """
    Open a created job, to show or mutate it.

    The file may have been edited since the creation; only the settings in force count.

    :raises JobNotCreatedError: if it was not created.
    :raises InvalidJobError: if its control tables belong to another job.
    """
    backfill = open_job(file)
    if not backfill.store.created():
        raise JobNotCreatedError(f"job {backfill.job.name} was not created yet; run: airflow-backfill create {file}")
    return backfill, backfill.settings()


def active_job(file: Path) -> tuple[Backfill, JobSettings]:
    """
    Open a created job, to change how it reads history; see :mod:`~airflow_backfill_provider.jobs.mutations`.

    :returns: the job, and the settings that the change will follow: those of its rebuild, if one grows beside it.
    :raises BackfillError: as :func:`created_job`.
    """
    backfill, _ = created_job(file)
    return backfill, active_store(backfill.store).settings()


def unchanged_job(file: Path) -> tuple[Backfill, JobSettings]:
    """
    Open a job that was created with the definition in the file, to run it.

    :raises BackfillError: as :func:`created_job`, and if the definition differs.
    """
    backfill, _ = created_job(file)
    return backfill, backfill.require_created()


def requester() -> Requester:
    """Return the user at the terminal, in the form of the barrier log."""
    return Requester(user=user())


def user() -> str:
    """Return the user at the terminal as ``user@host``."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a user id without a name.
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"
