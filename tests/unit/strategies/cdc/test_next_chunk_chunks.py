"""Planning the next chunk of what was read ahead, and what to do while there is nothing."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from airflow_backfill_provider.core.errors import ChangeFeedGapError, DataFileError, JobCancelledError, StateError
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import InProgress
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.present_rows import PresentRows
from airflow_backfill_provider.strategies.base import ChunkInputs
from airflow_backfill_provider.strategies.cdc.files import Reading
from airflow_backfill_provider.strategies.cdc.next_chunk import next_read_ahead
from tests.builders import Orders, barrier_of, job_of, settings_of
from tests.unit.strategies.scan_states import state_of

ROWS = 30


class Marks(PresentRows):
    """
    The marks of readings.

    :param seen: epoch → the offset of its reading's mark; by default all lie before every window's end.
    """

    def __init__(self, seen=None):
        self.seen = seen

    def begin_reading(self):
        raise AssertionError("planning reads nothing")

    def end_reading(self, name, server_run):
        raise AssertionError("planning reads nothing")

    def sample_keys(self, most):
        raise AssertionError("planning reads nothing")

    def seen_by(self, name, ended_by, server_run):
        del ended_by
        job, _, epoch = name.split("/")
        assert job == "paid_orders"
        return Offset(0) if self.seen is None else self.seen.get(int(epoch))


class PresentOrders(DeltaSource):
    """An upstream with a number of rows, and marks of readings; nothing else is asked of it."""

    marks = Marks()

    @property
    def present(self):
        return self.marks


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    orders = Orders(tmp_path_factory.mktemp("orders"))
    orders.add(*range(ROWS))
    return PresentOrders(orders.path)


@pytest.fixture
def location(lake):
    return str(lake / "read_ahead")


def read_ahead(location, order, *readings):
    """Write a table with one commit for each range, ``(after, up_to, ids)``; the first one creates it."""
    for epoch, (after, up_to, ids) in enumerate([(None, None, ()), *readings]):
        covered = KeyRange(*(None if bound is None else (bound,) for bound in (after, up_to)))
        reading = Reading(epoch=epoch, covered=covered, changes_after=Offset(epoch), server_run="")
        stamp = {"event": "create"} if epoch == 0 else {**reading.facts(order), "event": "epoch", "epoch": epoch}
        write_deltalake(
            location,
            pa.table({"id": pa.array(ids, pa.int64())}),
            mode="append",
            commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(stamp)}),
        )


def planned(upstream, location, readings, *, position=None, previous=None, keys=None, **changes):
    job = job_of(
        upstream={"path": upstream.location, "key": ["id"]}, **({"restrict_to": {"keys": keys}} if keys else {})
    )
    settings = settings_of(job, strategy="cdc", **changes)
    scan = settings.scan
    if readings is not None:
        read_ahead(location, scan.order, *readings)
    latest = upstream.latest()
    inputs = ChunkInputs(
        settings=settings,
        rate_limit=settings.rate_limit,
        state=scan.initial(0) if position is None else state_of(*[InProgress((position,), 1)] * scan.vnode_count),
        upstream=upstream,
        kept_up_to=latest,
        offset=latest,
        newest=latest,
        previous=previous,
        storage_options=None,
    )
    plan = next_read_ahead(inputs, location)
    assert plan.row_count == ROWS
    return plan.ranges, plan.prepares


A, B, C = (None, 9, range(10)), (9, 19, range(10, 20)), (19, None, range(20, 30))


def test_the_first_epoch_makes_the_table_and_reads_nothing_yet(upstream, location):
    assert planned(upstream, location, None) == ((), True)


def test_rows_that_epochs_read_ahead_must_exist(upstream, location):
    """I6."""
    with pytest.raises(StateError, match="the rows that job paid_orders read ahead are gone from .*; restore them"):
        planned(upstream, location, None, previous=barrier_of())


def test_what_a_cancelled_job_dropped_is_not_made_again(upstream, location):
    with pytest.raises(JobCancelledError, match="was cancelled and its tables are gone"):
        planned(upstream, location, None, previous=barrier_of(), cancelled=True)


@pytest.mark.parametrize("change", [{"paused": True}, {"rate_limit": 0}])
def test_a_job_that_reads_no_snapshot_appends_nothing_of_it(upstream, location, change):
    assert planned(upstream, location, [A], **change) == ((), False)


@pytest.mark.parametrize(("readings", "position"), [([], None), ([A], 9), ([A, B], 19)])
def test_an_epoch_with_nothing_read_ahead_only_reads_ahead(upstream, location, readings, position):
    assert planned(upstream, location, readings, position=position) == ((), True)


@pytest.mark.parametrize(
    ("readings", "position", "rate_limit", "expected"),
    [
        ([A], None, None, KeyRange(None, (9,))),
        ([A, B], None, None, KeyRange(None, (19,))),
        ([A, B], 9, None, KeyRange((9,), (19,))),
        ([A, B, C], 9, None, KeyRange((9,), None)),
        ([A, B, C], 19, 10, KeyRange((19,), None)),
        ([(None, None, range(30))], None, None, KeyRange(None, None)),
        # As many rows as the rate limit allows (I4).
        ([A, B], None, 4, KeyRange(None, (3,))),
        ([A, B], 3, 4, KeyRange((3,), (7,))),
        ([A, B], 3, 16, KeyRange((3,), (19,))),
        # Ranges without rows are passed, too.
        ([(None, 9, ())], None, 4, KeyRange(None, (9,))),
        ([A, (9, 19, ()), (19, None, ())], 9, 4, KeyRange((9,), None)),
    ],
)
def test_a_chunk_ends_where_reading_ahead_did_or_at_the_rate_limit(
    upstream, location, readings, position, rate_limit, expected
):
    ranges = planned(upstream, location, readings, position=position, rate_limit=rate_limit)
    assert ranges == ((expected,), False)


class Forgetful(PresentOrders):
    """An upstream whose changes after the first offsets are gone."""

    def require_changes(self, after, up_to):
        if after < Offset(2):
            raise ChangeFeedGapError(f"changes after {after} are gone")


@pytest.mark.parametrize("marks", [Marks(), Marks({})], ids=["its end is known", "its mark is gone, too"])
def test_rows_whose_changes_are_gone_are_refused(upstream, location, marks, monkeypatch):
    """I6: also if they would only wait; but not if they are in the view already."""
    forgetful = Forgetful(upstream.location)
    monkeypatch.setattr(Forgetful, "marks", marks)
    with pytest.raises(ChangeFeedGapError, match="changes after 1 are gone"):
        planned(forgetful, location, [A, B])
    planned(forgetful, location, None, position=9)


@pytest.mark.parametrize(
    ("seen", "position", "expected"),
    [
        ({1: 0, 2: 0, 3: 0}, None, KeyRange(None, None)),
        ({1: 0, 2: 0, 3: 99}, None, KeyRange(None, (19,))),
        ({1: 0, 2: 99, 3: 0}, None, KeyRange(None, (9,))),
        ({1: 0, 3: 0}, None, KeyRange(None, (9,))),
        ({2: 0, 3: 0}, 9, KeyRange((9,), None)),
    ],
)
def test_rows_that_were_read_after_the_window_s_end_wait(upstream, location, monkeypatch, seen, position, expected):
    """I1: a window may end in the past, as of an interval of the schedule."""
    monkeypatch.setattr(upstream, "marks", Marks({epoch: Offset(offset) for epoch, offset in seen.items()}))
    ranges = planned(upstream, location, [A, B, C], position=position, rate_limit=None)
    assert ranges == ((expected,), False)


@pytest.mark.parametrize("deaths", [1, 5])
def test_rows_that_a_dying_server_left_do_not_count_against_the_rate_limit(upstream, location, deaths):
    """I4: their range was read again, and a chunk has as many rows as the rate limit allows."""
    stale = [(None, 9, range(10))] * deaths
    assert planned(upstream, location, [*stale, A, B], rate_limit=12) == ((KeyRange(None, (11,)),), False)


def test_a_window_before_all_that_was_read_appends_nothing(upstream, location, monkeypatch):
    monkeypatch.setattr(upstream, "marks", Marks({1: Offset(99)}))
    assert planned(upstream, location, [A]) == ((), True)


def test_a_job_over_a_range_of_keys_is_read_within_it(upstream, location):
    keys = {"after": [4], "up_to": [19]}
    ranges = planned(upstream, location, [(4, 9, range(5, 10)), (9, 19, range(10, 20))], keys=keys, rate_limit=None)
    assert ranges == ((KeyRange((4,), (19,)),), False)


def test_a_data_file_that_is_gone_is_named_with_its_table(upstream, location, lake):
    """I6."""
    read_ahead(location, settings_of(strategy="cdc").scan.order, A)
    for file in (lake / "read_ahead").glob("*.parquet"):
        file.unlink()
    with pytest.raises(DataFileError, match="data file part-.* of .*read_ahead is gone; restore it"):
        planned(upstream, location, None, rate_limit=4)
