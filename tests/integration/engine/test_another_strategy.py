"""
A strategy that only this file defines and registers goes through a whole backfill.

It reads whole vnodes from the upstream itself, one an epoch: positions by vnode, as under ``arrangement``, chunks in
place, as under ``no_shuffle``. So no code outside of the strategies' folder may depend on which one it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.next_chunk import ChunkPart
from airflow_backfill_provider.core.scan.scan import Scan
from airflow_backfill_provider.spark.predicates import in_any
from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk, Offer, Strategy
from airflow_backfill_provider.strategies.cost import CostEstimate
from airflow_backfill_provider.strategies.in_place_reader import CheckedChunk
from airflow_backfill_provider.strategies.inputs import StrategyInputs
from airflow_backfill_provider.strategies.reader import Chunk, HistoryReader, ReaderContext
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

VNODES = 3


class VnodeByVnode(Strategy):
    """Reads a whole vnode in each epoch."""

    name: ClassVar[str] = "vnode_by_vnode"

    def scan(self, settings: JobSettings) -> Scan:
        job = settings.definition
        return VnodeScan(settings.key_order, job.vnode_count, job.vnodes, settings.own_columns)

    def offer(self, inputs: StrategyInputs) -> Offer:
        return Offer(fits=False, reason="it is a toy")

    def cost(self, inputs: StrategyInputs) -> CostEstimate:
        return inputs.cost(inputs.bytes * inputs.job.vnode_count, parallelism=1)

    def next_chunk(self, inputs: ChunkInputs) -> NextChunk:
        settings = inputs.settings
        rows = inputs.upstream.row_count(inputs.offset)
        (next_up, *_) = settings.scan.unread(inputs.state)
        vnode = 0 if next_up.after is None else int(next_up.after[0]) + 1
        is_last = vnode == settings.definition.vnode_count - 1
        chunk = KeyRange(next_up.after, None if is_last else (vnode,))
        read = ChunkPart((chunk,), rows, is_last, 0, rows, 0)
        return NextChunk(rows, (read,) if settings.reads_snapshot else ())

    def reader(self, context: ReaderContext) -> HistoryReader:
        return VnodeReader(context)


class VnodeReader(HistoryReader):
    """Reads it from the upstream."""

    def __init__(self, context: ReaderContext) -> None:
        self._context = context

    def chunk(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> AbstractContextManager[Chunk]:
        job_rows = self._context.job_rows
        rows = self._context.rows_at(barrier.chunk_offset).filter(in_any(job_rows.scan, ranges))
        return nullcontext(CheckedChunk(job_rows=job_rows, selected=rows))


class DiedError(Exception):
    """An attempt died."""


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Iterator[Lakehouse]:
    """A job of the strategy, in the middle of its backfill, with changes on either side."""
    KINDS.register(VnodeByVnode())
    try:
        lakehouse.make_upstream("id BIGINT, name STRING")
        lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(30)")
        lakehouse.create(strategy=VnodeByVnode.name, vnode_count=VNODES)
        lakehouse.epoch()
        lakehouse.sql("UPDATE {upstream} SET name = 'changed' WHERE id % 4 = 0")
        lakehouse.sql("DELETE FROM {upstream} WHERE id % 9 = 3")
        lakehouse.sql("INSERT INTO {upstream} VALUES (-1, 'first'), (99, 'last')")
        yield lakehouse
    finally:
        crash_points.install(None)
        KINDS.forget(VnodeByVnode.name)


def die_at(point: CrashPoint) -> None:
    """Let the next attempt die at a point."""

    def die(reached: CrashPoint) -> None:
        if reached is point:
            raise DiedError

    crash_points.install(die)


@pytest.mark.exhaustive
def test_a_strategy_from_outside_survives_crashes_and_ends_with_the_query_of_its_upstream(numbers: Lakehouse) -> None:
    """I1 and I2, where the view is verified in the middle and at the end."""
    numbers.assert_truth()
    for point in (
        CrashPoint.AFTER_PIN,
        CrashPoint.BEFORE_CHANGES_COMMIT,
        CrashPoint.AFTER_CHANGES_COMMIT,
        CrashPoint.AFTER_SNAPSHOT_COMMIT,
        CrashPoint.AFTER_STATE_COMMIT,
    ):
        die_at(point)
        with pytest.raises(DiedError):
            numbers.epoch()
    crash_points.install(None)
    assert len(numbers.finish()) == VNODES - 1, "a vnode each"
    numbers.assert_truth()


def test_an_unregistered_strategy_is_refused_with_the_names_of_the_registered_ones() -> None:
    with pytest.raises(InvalidJobError, match="'auto', 'snapshot', 'no_shuffle', 'arrangement', 'cdc' or 'source'"):
        BackfillJob(
            name="orders",
            upstream={"path": "/lake/orders", "key": ["id"]},
            materialized_view="/lake/view",
            query="SELECT id FROM upstream",
            strategy="vnode_by_vnode",
        )
