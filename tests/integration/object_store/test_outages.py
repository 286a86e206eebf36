"""
An object store that stops answering in the middle of a step, after so many of its requests.

Nothing is damaged then. An error that says so makes operators restore tables, and Airflow retries no task.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from itertools import product

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import BackfillError, StorageUnavailableError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.version_watch import VersionWatch
from airflow_backfill_provider.lake.tables.table_files import table_files
from airflow_backfill_provider.lake.tables.verified_tables import table_id, view_version_of
from airflow_backfill_provider.lake.tables.view_identity import INCARNATION_PROPERTY, JOB_PROPERTY, view_identity
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from tests.builders import CHANGE_DATA_FEED, order_of
from tests.integration.object_store.conftest import S3
from tests.integration.object_store.no_engine import NoEngine, inject
from tests.variants import exhaustive, mostly_exhaustive

pytestmark = pytest.mark.slow

STATUSES = [503, exhaustive(403)]
"""The store is too busy, or credentials expire."""


def look(backfill: Backfill) -> None:
    """Ask for everything that a page shows."""
    backfill.status()


def pin(backfill: Backfill) -> None:
    """Pin a barrier, or find the one that is pinned."""
    inject(backfill, "somebody")


def run(backfill: Backfill) -> None:
    """Run the pinned barrier's epoch."""
    protocol.run_epoch(backfill.store.barriers()[-1], store=backfill.store, engine=NoEngine())


def nothing(_: Backfill) -> None:
    """Do nothing."""


def requests_of(s3: S3, well: Backfill, before: Callable[[Backfill], None], step: Callable[[Backfill], None]) -> int:
    """Pin a barrier, take a step without any cache, and return its number of requests."""
    pin(well)
    before(well)
    s3.requests()
    step(Backfill(well.job, s3.options))
    return s3.requests()


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("every", [199, exhaustive(13)])
@pytest.mark.parametrize(("before", "step"), [exhaustive(nothing, look), exhaustive(run, pin), (pin, run)])
def test_an_outage_raises_retryable_errors(
    s3: S3,
    job: BackfillJob,
    before: Callable[[Backfill], None],
    step: Callable[[Backfill], None],
    every: int,
    status: int,
) -> None:
    """
    I2, I6: the next try does what this one could not.

    :param every: every so many requests of a step, one is the last that is answered.
    """
    well, impatient = Backfill(job, s3.options), {**s3.options, "max_retries": "0"}
    for limit in range(25, 0, -1):
        # Until the settings have a checkpoint.
        mutations.throttle_job(limit, store=well.store, requested_by="somebody")
    count, errors = requests_of(s3, well, before, step), []
    for after in range(0, count, every):
        before(well)
        with s3.outage(after, status):
            try:
                step(Backfill(job, impatient))
            except BackfillError as error:
                errors.append((after, error))
        step(well)
    assert len(errors) * every > count // 2
    assert [(after, error) for after, error in errors if not error.retryable] == []
    assert [commit.snapshot_read_row_count for commit in well.store.commits()] == [1] * len(well.store.commits())


@pytest.mark.parametrize("retries", [0, exhaustive(3)])
@pytest.mark.parametrize("every", [199, exhaustive(13)])
@pytest.mark.parametrize(("before", "step"), [exhaustive(run, pin), (pin, run)])
def test_a_request_with_a_lost_answer_takes_effect_once(
    s3: S3,
    job: BackfillJob,
    before: Callable[[Backfill], None],
    step: Callable[[Backfill], None],
    every: int,
    retries: int,
) -> None:
    """
    I2, I5: the store wrote a commit and its answer was lost, so the retry finds the commit taken.

    :param every: every so many requests of a step, an answer is lost.
    :param retries: how often deltalake itself asks again.
    """
    well = Backfill(job, s3.options)
    mutations.throttle_job(1, store=well.store, requested_by="somebody")
    for after in range(0, requests_of(s3, well, before, step), every):
        before(well)
        with s3.outage(after, 503, loses=1), suppress(StorageUnavailableError):
            step(Backfill(job, {**s3.options, "max_retries": str(retries)}))
        step(well)
    barriers, commits = well.store.barriers(), well.store.commits()
    assert [barrier.epoch for barrier in barriers] == list(range(1, len(barriers) + 1))
    assert [(commit.epoch, commit.rows_read) for commit in commits] == [(n, n) for n in range(1, len(commits) + 1)]
    assert len(commits) >= len(barriers) - 1


KEY = order_of("long")


def upstream_of(s3: S3, options: dict[str, str]) -> DeltaSource:
    return DeltaSource(f"{s3.root}/orders", options)


def keys_of(files):
    """Return the keys of all data files."""
    return [files.keys(KEY).read(file) for file in files.files(KEY)]


LOOKS = {
    "versions by time": lambda s3, options: upstream_of(s3, options).offset_at(dt.datetime.now(dt.UTC)),
    "the newest version": lambda s3, options: VersionWatch(f"{s3.root}/orders", options).latest(),
    "a version": lambda s3, options: upstream_of(s3, options).at(offset_of(1)),
    "its changes": lambda s3, options: upstream_of(s3, options).change_feed(offset_of(0)),
    "schemas in a window": lambda s3, options: upstream_of(s3, options).require_used_columns(
        offset_of(-1), offset_of(2), ResolvedUpstream(table_id="t", columns=())
    ),
    "whether it is the same": lambda s3, options: upstream_of(s3, options).require_same_history(HistoryPoint(offset=1)),
    "keys of its files": lambda s3, options: keys_of(upstream_of(s3, options).files_at(offset_of(1))),
    "whose view it is": lambda s3, options: view_identity(f"{s3.root}/view", options),
    "files of the view": lambda s3, options: table_files(f"{s3.root}/view", options),
    "a transaction": lambda s3, options: DeltaLog(f"{s3.root}/view", options).transaction_version("x"),
    "what is compared": lambda s3, options: table_id(f"{s3.root}/view", options),
    "what is written of an epoch": lambda s3, options: view_version_of(f"{s3.root}/view", "first", 1, options),
    "the size of an arrangement": lambda s3, options: ArrangementFiles(f"{s3.root}/view", options).size(),
    "an arrangement": lambda s3, options: ArrangementFiles(f"{s3.root}/view", options).exists(),
}


@pytest.fixture(scope="module")
def looked_at(shared_s3: S3) -> S3:
    """A bucket with an upstream and a view, each of three commits and a checkpoint."""
    ours = {JOB_PROPERTY: "small_orders", INCARNATION_PROPERTY: "first"}
    for name, properties in (("orders", CHANGE_DATA_FEED), ("view", ours)):
        table = DeltaTable.create(
            f"{shared_s3.root}/{name}",
            pa.schema([("k1", pa.int64())]),
            configuration=properties,
            storage_options=shared_s3.options,
            raise_if_key_not_exists=False,
        )
        for number in range(3):
            write_deltalake(table, pa.table({"k1": pa.array([number], pa.int64())}), mode="append")
        table.create_checkpoint()
    return shared_s3


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize(
    "look_at", mostly_exhaustive(LOOKS, ["a version", "its changes", "whose view it is", "a transaction"])
)
def test_a_table_that_cannot_be_read_for_a_while_is_neither_damaged_nor_missing(
    looked_at: S3, look_at: str, status: int
) -> None:
    """I6: the outage begins with any request of the look, or hits only that one."""
    looked_at.requests()
    LOOKS[look_at](looked_at, looked_at.options)
    count, wrong = looked_at.requests(), []
    for after, loses in product(range(count), (0, 1)):
        with looked_at.outage(after, status, loses=loses):
            try:
                LOOKS[look_at](looked_at, {**looked_at.options, "max_retries": "0"})
            except BackfillError as error:
                if not error.retryable:
                    wrong.append((after, error))
    assert wrong == []
