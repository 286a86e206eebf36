"""Planning the next chunk of an arrangement: what can be read, how much of it, and which task run reads it."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import ChangeFeedGapError, JobCancelledError, StateError
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.strategies.arrangement import next_chunk as planning
from airflow_backfill_provider.strategies.base import ChunkInputs
from tests.builders import Orders, barrier_of, job_of, settings_of

IN_VNODES = (Completed(None, 1), Completed(None, 1), InProgress((5,), 1), InProgress((5,), 1))

FOUR_RUNS = ((0, 0), (1, 1), (2, 2), (3, 3))


def divided(vnodes, *, before, parallelism):
    """The vnodes that each of some task runs owns, of four that have as many rows each."""
    settings = settings_of(strategy="arrangement", parallelism=parallelism)
    files = [FileStatistics(path=f"{vnode}", row_count=10, lower=(vnode,), upper=(vnode,)) for vnode in range(4)]
    previous = barrier_of(parallelism=len(before), vnode_ranges=before)
    return planning._vnode_ranges(settings, BackfillState(1, vnodes), files, previous)


def test_vnodes_stay_with_their_task_runs():
    assert divided((InProgress((5,), 1),) * 4, before=((0, 0), (1, 3)), parallelism=2) == ((0, 0), (1, 3))


def test_another_parallelism_divides_the_vnodes_again():
    """Also if as many of the earlier task runs have work left as there are now."""
    assert divided(IN_VNODES, before=FOUR_RUNS, parallelism=2) == ((0, 2), (3, 3))


def test_task_runs_without_work_get_vnodes_that_others_can_spare():
    assert divided(IN_VNODES, before=((0, 1), (2, 3)), parallelism=2) == ((0, 2), (3, 3))


def test_vnodes_are_divided_by_the_rows_of_their_files():
    """A file of several vnodes has as many rows of each, and one without bounds has rows of all."""
    files = [
        FileStatistics(path="a", row_count=60, lower=(0,), upper=(0,)),
        FileStatistics(path="b", row_count=30, lower=(1, 7), upper=(3, 7)),
        FileStatistics(path="c", row_count=4),
    ]
    assert planning._rows_by_vnode(files, 4) == [61, 11, 11, 11]
    settings = settings_of(strategy="arrangement", parallelism=2)
    state = BackfillState(1, (NotStarted(),) * 4)
    assert planning._vnode_ranges(settings, state, files, None) == ((0, 0), (1, 3))


# --- an arrangement that does not exist -----------------------------------------------------------


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """Eight orders, and then forty; nothing here changes them."""
    made = Orders(tmp_path_factory.mktemp("orders"))
    made.add(*range(8))
    made.add(*range(100, 132))
    return made


def planned(orders, tmp_path, *, previous=None, job=None, **changes):
    definition = job_of(tmp_path, upstream={"path": orders.path, "key": ["id"]}, **(job or {}))
    settings = settings_of(definition, strategy="arrangement", **changes)
    inputs = ChunkInputs(
        settings=settings,
        rate_limit=settings.rate_limit,
        state=settings.scan.initial(0),
        upstream=orders.table,
        kept_up_to=offset_of(0),
        offset=offset_of(1),
        newest=offset_of(1),
        previous=previous,
        storage_options=None,
    )
    return planning.next_arranged_chunk(inputs, str(tmp_path / "arrangement"))


@pytest.mark.parametrize(
    ("restricted", "rows"),
    [({}, 40), ({"vnodes": [0]}, 10), ({"keys": {"after": [99]}}, 32), ({"keys": {"after": [99]}, "vnodes": [0]}, 8)],
)
def test_the_first_epoch_makes_it_and_reads_nothing_yet(orders, tmp_path, restricted, rows):
    plan = planned(orders, tmp_path, job={"restrict_to": restricted} if restricted else None)
    assert (plan.prepares, plan.parts, plan.row_count) == (True, (), rows)


def test_an_arrangement_that_epochs_read_before_must_exist(orders, tmp_path):
    """I6."""
    with pytest.raises(StateError, match="arrangement of job paid_orders is gone .*, but epochs have already read"):
        planned(orders, tmp_path, previous=barrier_of())


def test_an_arrangement_that_a_cancelled_job_dropped_is_not_made_again(orders, tmp_path):
    with pytest.raises(JobCancelledError, match="was cancelled and its arrangement is gone"):
        planned(orders, tmp_path, cancelled=True)


# --- windows with unknown inserts -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate_limit", "rows_after", "shrunk"), [(None, 40, None), (10, 40, 2), (10, 8, 10), (10, 7, 10), (1, 40, 1)]
)
def test_the_rate_limit_leaves_room_for_rows_that_came_in_the_window(orders, rate_limit, rows_after, shrunk):
    """I4: eight rows were there before it; one row is always read."""
    assert planning._shrunk(rate_limit, orders.table, offset_of(0), rows_after) == shrunk


def test_a_window_whose_first_version_is_gone_leaves_the_rate_limit():
    class Gone:
        def row_count(self, offset):
            raise ChangeFeedGapError(f"version {offset} is gone")

    assert planning._shrunk(10, Gone(), offset_of(0), 40) == 10
