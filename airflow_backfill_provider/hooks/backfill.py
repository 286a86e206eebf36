"""The hook that opens jobs, with the location of their control tables and the options of their object store."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.errors import BackfillError, StorageOptionsError
from airflow_backfill_provider.core.job.connections import register_lookup
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.lake.store.bucket_options import BucketOption
from airflow_backfill_provider.lake.store.object_store import hadoop_settings, is_secret, without_secrets

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill
    from airflow_backfill_provider.state.backfill_reader import BackfillReader

JobDefinition = BackfillJob | Mapping[str, Any] | str
"""A job in a DAG: the object, its fields, or the path of its YAML file."""

EXTRAS = ("state_root", "storage_options", "secret_storage_options")

_STORAGE_OPTION = re.compile(r"(AWS|AZURE|GOOGLE)_[A-Z0-9_]+")


class InvalidConnectionError(BackfillError, ValueError):
    """A connection is missing, or has an invalid value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillConnection:
    """
    The values of a connection of type ``airflow_backfill``.

    :param state_root: folder for the control tables of jobs that do not set ``state``; if empty, they lie beside the
        view.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    state_root: str = ""
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_extras(cls, extras: Mapping[str, Any], conn_id: str) -> BackfillConnection:
        """
        Read a connection's extras, and refuse unknown ones.

        :raises InvalidConnectionError: if an extra is invalid; with its name, but never its value.
        """
        unknown = sorted(set(extras) - set(EXTRAS))
        if unknown:
            raise InvalidConnectionError(
                f"connection {conn_id}: unknown extra {', '.join(unknown)}; allowed are {', '.join(EXTRAS)}"
            )
        root = extras.get("state_root") or ""
        if not isinstance(root, str):
            raise InvalidConnectionError(f"connection {conn_id}: state_root must be a path or a URI")
        return cls(
            state_root=location.canonical_location(root) if root else "",
            storage_options=_merged(
                _storage_options(extras.get("storage_options") or {}, f"connection {conn_id}: storage_options"),
                _storage_options(
                    extras.get("secret_storage_options") or {}, f"connection {conn_id}: secret_storage_options"
                ),
                conn_id,
            ),
        )


class BackfillHook(BaseHook):
    """
    Opens jobs: their control tables and their upstream.

    :param backfill_conn_id: a connection of type ``airflow_backfill``. If the default one does not exist, control
        tables lie where the jobs put them, and object stores get their options from the environment.
    """

    conn_name_attr = "backfill_conn_id"
    default_conn_name = "airflow_backfill_default"
    conn_type = "airflow_backfill"
    hook_name = "Backfill"

    def __init__(self, backfill_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.backfill_conn_id = backfill_conn_id

    @cached_property
    def connection(self) -> BackfillConnection:
        """
        The connection's values.

        :raises InvalidConnectionError: if it is missing and not the default one, or has an invalid value.
        """
        try:
            connection = self.get_connection(self.backfill_conn_id)
        except AirflowNotFoundException:
            if self.backfill_conn_id == self.default_conn_name:
                return BackfillConnection()
            raise InvalidConnectionError(
                f"there is no connection {self.backfill_conn_id}; create it with type {self.conn_type}, or leave "
                f"{self.conn_name_attr} out to use the defaults"
            ) from None
        if connection.conn_type != self.conn_type:
            raise InvalidConnectionError(
                f"connection {self.backfill_conn_id} has type {connection.conn_type}; change it to {self.conn_type}"
            )
        return BackfillConnection.from_extras(_extras(connection.extra, self.backfill_conn_id), self.backfill_conn_id)

    def open(self, job: JobDefinition) -> Backfill:
        """
        Open a job, without checking that it was created.

        :param job: the definition, as an object, its fields, or the path of its YAML file.
        :raises InvalidJobError: if the definition is not valid.
        :raises InvalidConnectionError: if the connection cannot be used.
        """
        from airflow_backfill_provider.jobs.backfill import Backfill

        _use_connections_of_airflow()
        return Backfill(self._with_state(load_job(job)), self.connection.storage_options)

    def reader(self, state: str) -> BackfillReader:
        """Return the reader of the control tables at a location."""
        from airflow_backfill_provider.state.backfill_reader import BackfillReader

        return BackfillReader(state, self.connection.storage_options)

    def test_connection(self) -> tuple[bool, str]:
        """Test the state root for Airflow's connection form: list it, and write and remove a table in it."""
        try:
            connection = self.connection
        except BackfillError as error:
            return False, str(error)
        root, options = connection.state_root, connection.storage_options
        if not root:
            return (
                True,
                "control tables lie beside their materialized views; without a state root there is nothing to test",
            )
        from airflow_backfill_provider.state.probe import probe_state_root

        try:
            found = probe_state_root(root, options)
        except Exception as error:  # noqa: BLE001 - a form wants the reason, whatever it is
            return False, without_secrets(str(error), options)
        return True, f"control tables lie under {root}; {found}"

    def _with_state(self, job: BackfillJob) -> BackfillJob:
        """Return the job with its control tables under the state root, unless the job sets ``state``."""
        root = self.connection.state_root
        if not root or "state" in job.model_fields_set:
            return job
        fields = job.model_dump(mode="json", exclude_unset=True)
        return BackfillJob(**fields, state=f"{root}/{job.name}")


def _use_connections_of_airflow() -> None:
    from airflow_backfill_provider.hooks.connections import from_airflow

    register_lookup(from_airflow)


def load_job(job: JobDefinition) -> BackfillJob:
    """
    Return a job's definition from any form in which a DAG may have it.

    :raises InvalidJobError: if the definition is not valid.
    """
    if isinstance(job, BackfillJob):
        return job
    if isinstance(job, Mapping):
        return BackfillJob(**{str(name): value for name, value in job.items()})
    return BackfillJob.from_yaml(job)


def _extras(text: str | None, conn_id: str) -> Mapping[str, Any]:
    return _json_object(text, f"connection {conn_id}: the extra") if text else {}


def _merged(options: dict[str, str], secret_options: dict[str, str], conn_id: str) -> dict[str, str]:
    """Merge both kinds of options, and check that deltalake and Spark can use them."""
    twice = sorted(options.keys() & secret_options.keys())
    if twice:
        raise InvalidConnectionError(
            f"connection {conn_id}: {', '.join(twice)} is in storage_options and in secret_storage_options; keep one "
            "of them"
        )
    merged = options | secret_options
    try:
        hadoop_settings(merged)
    except StorageOptionsError as error:
        raise InvalidConnectionError(f"connection {conn_id}: {error}") from error
    return merged


def _storage_options(written: Any, what: str) -> dict[str, str]:
    """Check the options' names, and mask secret values in logs."""
    options = _json_object(written, what) if isinstance(written, str) else written
    if not isinstance(options, Mapping):
        raise InvalidConnectionError(f"{what} must be a JSON object of names and values")
    for name, value in options.items():
        if is_secret(str(name)) and value:
            mask_secret(str(value))
    unknown = sorted(str(name) for name in options if not _STORAGE_OPTION.fullmatch(_without_bucket(str(name), what)))
    if unknown:
        raise InvalidConnectionError(
            f"{what}: unknown option {', '.join(unknown)}; allowed are deltalake's upper-case names that begin with "
            "AWS_, AZURE_ or GOOGLE_, and bucket.<name of the bucket>.AWS_…"
        )
    wrong = sorted(name for name, value in options.items() if not isinstance(value, str))
    if wrong:
        raise InvalidConnectionError(f'{what}: {", ".join(wrong)} must be text; write "true" instead of true')
    return dict(options)


def _without_bucket(name: str, what: str) -> str:
    try:
        of_bucket = BucketOption.of(name)
    except StorageOptionsError as error:
        raise InvalidConnectionError(f"{what}: {error}") from error
    return of_bucket.option if of_bucket else name


def _json_object(text: str, what: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        # The text may hold a secret, and so may the parser's message.
        raise InvalidConnectionError(f"{what} is not valid JSON") from None
    if not isinstance(value, Mapping):
        raise InvalidConnectionError(f"{what} must be a JSON object of names and values")
    return value
