"""The replay of ``snapshot`` ends while other writers go on, and whatever they write into the log."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.replay import MOST_EPOCHS
from airflow_backfill_provider.core.errors import QueryFailedError
from airflow_backfill_provider.jobs import mutations
from tests.integration.engine.attempts import is_killed
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.test_crash_points import POINTS

pytestmark = pytest.mark.spark

QUERY = "SELECT id, 100 div part AS share FROM upstream"
DIRECTLY = "SELECT id, 100 div part AS share FROM {upstream}"


class Writer:
    """Another engine, deltalake, which merges into the upstream."""

    def __init__(self, lakehouse: Lakehouse) -> None:
        self.lakehouse = lakehouse
        self.round = 0

    def merge(self, commits: int, rows: int = 30) -> None:
        """Change some rows and add one, in each of some commits."""
        for _ in range(commits):
            self.round += 1
            ids = [*((self.round * 7 + index * 3) % 2000 for index in range(rows - 1)), 10_000 + self.round]
            source = pa.table({"id": pa.array(ids, pa.int64()), "part": pa.array([1 + self.round % 5] * rows)})
            table = DeltaTable(self.lakehouse.upstream_path, storage_options=self.lakehouse.storage_options)
            merged = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
            merged.when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.fixture
def lake(lakehouse: Lakehouse) -> Lakehouse:
    """An upstream of one file with 2,000 rows."""
    lakehouse.make_upstream("id BIGINT, part BIGINT")
    lakehouse.sql("INSERT INTO {upstream} SELECT /*+ COALESCE(1) */ id, 1 + id % 5 FROM range(2000)")
    return lakehouse


def read_while_written(lake: Lakehouse, *, commits: int, rate_limit: int) -> Writer:
    """Read all files in an epoch, behind commits of a writer; then set the rate limit of the replay."""
    lake.create(strategy="snapshot", query=QUERY)
    writer = Writer(lake)
    writer.merge(commits)
    lake.epoch()
    mutations.throttle_job(rate_limit, store=lake.backfill.store, requested_by="tester")
    return writer


def replayed(lake: Lakehouse, writer: Writer, commits: int) -> Iterator[Barrier]:
    """Run epochs until the view is finished, and yield the barriers of the replay; the writer never rests."""
    for _ in range(MOST_EPOCHS):
        writer.merge(commits)
        barrier = lake.inject()
        assert barrier is not None
        if lake.run(barrier).completed:
            yield barrier
            return
        yield barrier
    raise AssertionError("the replay does not end")


@pytest.mark.exhaustive
def test_commits_of_another_writer_count_what_they_changed(lake: Lakehouse) -> None:
    """I4: each commit writes the whole file anew, and changes 30 rows; the rate limit allows three of them."""
    writer = read_while_written(lake, commits=3, rate_limit=100)
    writer.merge(1)
    barriers = [*replayed(lake, writer, 1)]
    assert [barrier.upstream.to_offset.distance_from(barrier.upstream.from_offset) for barrier in barriers] == [3, 3]
    assert [barrier.warnings for barrier in barriers] == [(), ()]
    lake.assert_equals_query(DIRECTLY)


@pytest.mark.exhaustive
@pytest.mark.parametrize("commits", [1, 4, 9])
def test_the_tenth_epoch_takes_all_whatever_the_speed_of_the_writer(lake: Lakehouse, commits: int) -> None:
    """I4; I1 after each epoch."""
    writer = read_while_written(lake, commits=1, rate_limit=1)
    writer.merge(12)
    barriers = []
    for barrier in replayed(lake, writer, commits):
        lake.assert_truth()
        barriers.append(barrier)
    assert [barrier.replay for barrier in barriers] == [*range(1, MOST_EPOCHS + 1)]
    assert "takes all" in barriers[-1].warnings[0]
    assert lake.backfill.status().finished
    lake.assert_equals_query(DIRECTLY)


@pytest.mark.exhaustive
def test_the_tenth_epoch_is_the_same_for_each_attempt(spark_remote: str, lake: Lakehouse) -> None:
    """I2: each attempt dies one step later, and commits arrive between them."""
    writer = read_while_written(lake, commits=1, rate_limit=1)
    writer.merge(12)
    for _ in range(MOST_EPOCHS - 1):
        lake.epoch()
        writer.merge(2)
    assert lake.job is not None
    for point in POINTS:
        is_killed(spark_remote, lake.job.state, point)
        writer.merge(1)
    lake.finish()
    assert [barrier.replay for barrier in lake.barriers()][1:] == [*range(1, MOST_EPOCHS + 1), 0]
    lake.assert_equals_query(DIRECTLY)


@pytest.mark.exhaustive
def test_a_row_that_is_corrected_far_behind_it_is_reached(lake: Lakehouse) -> None:
    """The epoch is given up; the next one takes all that is left, because a small window would fail for ever."""
    writer = read_while_written(lake, commits=1, rate_limit=1)
    lake.sql("UPDATE {upstream} SET part = 0 WHERE id = 1999")
    writer.merge(12)
    with pytest.raises(QueryFailedError, match="is given up"):
        lake.finish()
    lake.sql("UPDATE {upstream} SET part = 3 WHERE id = 1999")
    writer.merge(2)
    commit = lake.epoch()
    assert commit is not None
    assert commit.completed
    lake.assert_equals_query(DIRECTLY)
