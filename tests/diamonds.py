"""Tables in Delta that change at known minutes, views over them, and views over these, by an engine without Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.engine import PartWrites
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.tables.view_identity import (
    FINISHED_PROPERTY,
    INCARNATION_PROPERTY,
    JOB_PROPERTY,
    STATE_PROPERTY,
    ViewIdentity,
    view_identity,
)
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source
from tests.builders import CHANGE_DATA_FEED, NOW, committed_at
from tests.plain_engine import CountingEngine

TESTER = Requester(user="tester")
SCHEMA = pa.schema([("id", pa.int64()), ("customer", pa.int64()), ("name", pa.string())])


def minute(number: float) -> dt.datetime:
    """Return an instant."""
    return NOW + dt.timedelta(minutes=number)


def row(number: int) -> pa.Table:
    """Return a row of any of the tables."""
    return pa.table({"id": [number], "customer": [number], "name": ["n"]}, SCHEMA)


class ViewEngine(CountingEngine):
    """Writes a row to the view in every epoch that is not idle, and says that the view is finished."""

    def ensure_tables(self, settings: JobSettings, earlier_incarnations: Mapping[str, int]) -> None:
        """Make the view's empty table exist."""
        wanted = ViewIdentity(settings.job["name"], settings.incarnation)
        if view_identity(settings.definition.view_location) != wanted:
            DeltaTable.create(
                settings.definition.view_location,
                schema=SCHEMA,
                mode="overwrite",
                configuration={JOB_PROPERTY: wanted.job, INCARNATION_PROPERTY: wanted.incarnation},
                raise_if_key_not_exists=False,
            )

    def apply_changes(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> PartWrites:
        """Write a row."""
        write_deltalake(settings.definition.view_location, row(barrier.epoch), mode="append")
        return PartWrites({0: 1}, rows_added=0)

    def mark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Say that the view is finished, once."""
        table = DeltaTable(settings.definition.view_location)
        if FINISHED_PROPERTY not in table.metadata().configuration:
            said = {STATE_PROPERTY: settings.definition.state, FINISHED_PROPERTY: "true", **CHANGE_DATA_FEED}
            table.alter.set_table_properties(said, raise_if_not_exists=False)


class ViewJob:
    """
    A job over one or two tables or views of a folder.

    :param folder: the folder.
    :param name: the name of the job and of its view.
    :param reads: the names of what it reads.
    """

    def __init__(self, folder: Path, name: str, *reads: str) -> None:
        upstreams = {read: {"path": f"{folder}/{read}", "key": ["id"]} for read in reads}
        job = {
            "name": name,
            "materialized_view": f"{folder}/{name}",
            "query": "SELECT id, customer FROM upstream",
            "strategy": "no_shuffle",
            "vnode_count": 1,
        }
        if len(reads) == 1:
            job["upstream"] = upstreams[reads[0]]
        else:
            job["upstreams"] = upstreams
            lead, dimension = reads
            job["query"] = (
                f"SELECT l.id, l.customer, d.name FROM {lead} AS l LEFT JOIN {dimension} AS d ON d.id = l.customer"
            )
        self.job = BackfillJob(**job)

    @property
    def backfill(self) -> Backfill:
        """The job with its tables."""
        return Backfill(self.job)

    def create(self, at: float) -> JobSettings:
        """Create the job at a minute."""
        return self._make(creation.create_job, at)

    def rebuild(self, at: float) -> JobSettings:
        """Rebuild the job at a minute."""
        return self._make(creation.rebuild_job, at)

    def ask(self, at: float, until: float | None = None) -> protocol.Injection:
        """Ask for a barrier at a minute."""
        backfill = self.backfill
        return protocol.inject_barrier(
            store=backfill.store,
            upstream=backfill.upstream,
            requester=TESTER,
            until=None if until is None else minute(until),
            clock=lambda: minute(at),
        )

    def run(self, at: float, until: float | None = None) -> dict[str, int] | None:
        """Run an epoch at a minute, and return where its windows end; ``None`` if there is nothing to do."""
        injected = self.ask(at, until)
        if injected.barrier is None:
            return None
        protocol.run_epoch(
            injected.barrier, store=self.backfill.store, engine=ViewEngine(), clock=lambda: minute(at + 0.1)
        )
        return {window.relation: window.to_offset.number or 0 for window in injected.barrier.windows}

    def _make(self, action, at: float) -> JobSettings:
        backfill = self.backfill
        return action(
            self.job,
            store=backfill.store,
            upstream=backfill.upstream,
            engine=ViewEngine,
            requested_by="tester",
            clock=lambda: minute(at),
        )


class Lake:
    """
    A folder of tables and views.

    :param folder: the folder.
    :param tables: the names of the tables, each of which has one commit, at minute 0.
    """

    def __init__(self, folder: Path, *tables: str) -> None:
        self.folder = folder
        self.versions: dict[str, int] = {}
        for table in tables:
            self.commit(table, 0)

    def commit(self, table: str, at: float) -> int:
        """Append a row to a table at a minute, and return the version."""
        version = self.versions[table] = self.versions.get(table, -1) + 1
        path = f"{self.folder}/{table}"
        write_deltalake(path, row(version), mode="append", configuration=CHANGE_DATA_FEED)
        committed_at(path, version, minute(at))
        return version

    def view(self, name: str, *reads: str, at: float = 1) -> ViewJob:
        """Create a view at a minute, and finish it."""
        made = ViewJob(self.folder, name, *reads)
        made.create(at)
        made.run(at)
        return made

    def source(self, name: str) -> Source:
        """Return a table or a view as an upstream."""
        return open_source(ViewJob(self.folder, "any", name).job.upstream)
