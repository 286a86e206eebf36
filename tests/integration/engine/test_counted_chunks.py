"""
Rows that Spark's own scan leaves out are found before the epoch writes, also while no total is certain.

A position that cuts a file leaves open how many of its rows were read, so bounds by statistics are wide. The keys of
such a file are counted without Spark.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.lake.tables import rows_in_ranges
from airflow_backfill_provider.spark import session_settings
from tests.integration.engine import test_generated_columns as generated
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.test_suspect_statistics import bounds, ids, restate, write
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

DERIVED = "spark.databricks.delta.generatedColumn.partitionFilterOptimization.enabled"


def every(step: int, first: int, rows: int) -> dict[str, pa.Array]:
    """Return rows with keys at a distance."""
    keys = pa.array(range(first, first + step * rows, step), pa.int64())
    return {"id": keys, "amount": keys}


def shared_epoch(lakehouse: Lakehouse) -> EpochCommit | None:
    """Run one epoch step by step, as several task runs do; the steps after the first write cannot refuse it."""
    barrier, store = lakehouse.inject(), lakehouse.backfill.store
    if barrier is None:
        return None
    commit = protocol.apply_changes(barrier, store=store, engine=lakehouse.engine)
    for part in range(len(barrier.parts)):
        commit = protocol.read_chunk_part(barrier, part, store=store, engine=lakehouse.engine)
    return commit


def assert_whole_after_each_epoch(
    lakehouse: Lakehouse, keys: list[int], epoch: Callable[[Lakehouse], EpochCommit | None] = Lakehouse.epoch
) -> None:
    """Run all epochs; after each, the view has every row at or before its last one."""
    for _ in range(60):
        commit = epoch(lakehouse)
        if commit is None:
            break
        found = ids(lakehouse)
        assert found == [key for key in keys if key <= found[-1]]
        assert commit.rows_present == len(found)
    assert ids(lakehouse) == keys


@pytest.mark.exhaustive
@pytest.mark.parametrize("declared", [(60, 200), (0, 9), (500, 900)])
def test_rows_outside_the_bounds_of_their_file_are_read_with_their_chunk(
    lakehouse: Lakehouse, declared: tuple[int, int]
) -> None:
    """I1, I6: after every epoch, however wrong the statistics are."""
    write(lakehouse, every(2, 0, 20), every(2, 11, 40))
    restate(lakehouse, bounds(*declared))
    lakehouse.create(rate_limit=12, strategy="no_shuffle")
    assert_whole_after_each_epoch(lakehouse, sorted([*range(0, 40, 2), *range(11, 91, 2)]))


def test_a_chunk_that_is_read_step_by_step_is_counted_before_it_is_written(lakehouse: Lakehouse) -> None:
    """I6: then the total is only known after the write."""
    write(lakehouse, every(1, 0, 20))
    restate(lakehouse, bounds(12, 19))
    lakehouse.create(rate_limit=8, strategy="no_shuffle")
    assert_whole_after_each_epoch(lakehouse, [*range(20)], shared_epoch)


@pytest.mark.parametrize("declared", [(0, 9), exhaustive((0, 20)), exhaustive((10, 30))])
def test_rows_beyond_the_bounds_of_their_file_are_read_with_their_chunk(
    lakehouse: Lakehouse, declared: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1, I6: of a table that is too large to read all keys, while a file that the position cuts leaves bounds wide."""
    monkeypatch.setattr(rows_in_ranges, "FEW_ROWS", 0)
    write(lakehouse, every(2, 0, 20), every(2, 11, 40))
    restate(lakehouse, bounds(*declared))
    lakehouse.create(rate_limit=7, strategy="no_shuffle")
    assert_whole_after_each_epoch(lakehouse, sorted([*range(0, 40, 2), *range(11, 91, 2)]))


def test_rows_that_a_derived_condition_leaves_out_are_read_with_their_chunk(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    I6: not because Delta's derivation is turned off, but because every chunk is counted.

    The third chunk begins late on a day, where the condition leaves out two rows, and ends inside the next day's only
    file. So bounds by statistics allow the count of the chunk, and that of all rows up to its end, without these rows.
    """
    monkeypatch.setitem(session_settings.OURS, DERIVED, "true")
    monkeypatch.setattr(rows_in_ranges, "FEW_ROWS", 0)
    generated.make(lakehouse, generated.DAY)
    generated.insert(lakehouse, "America/Los_Angeles", 0, generated.ROWS + 4)
    lakehouse.create(key=["ts"], query="SELECT id, ts FROM upstream", rate_limit=7)
    assert_whole_after_each_epoch(lakehouse, [*range(generated.ROWS + 4)])
