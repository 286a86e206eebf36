"""
Views of groups in random histories: the view is the query over what was read, after every epoch and whatever happens.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.model.groups_mutants import BY_UNITS, KINDS, Kind
from tests.model.groups_queries import GLOBAL, LATEST, TOTALS, TOTALS_OF_TWO, State
from tests.model.groups_rows import Sale, a_history, first_image, images_of, sales
from tests.model.groups_runs import GroupsRun
from tests.model.groups_tables import Table
from tests.model.histories import play_histories
from tests.model.upstream import Upstream
from tests.strategies import Delete, Insert, KeyColumn, Update, Write

pytestmark = pytest.mark.slow  # many histories


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_view_is_the_query_over_the_rows_that_were_read(kind: Kind) -> None:
    """
    I1, I2, I4, I7: after every epoch, with crashes, zombies beside the live attempt, compactions, repairs and rebuilds.
    """
    result = play_histories([kind], range(3))
    assert result.error is None, result.trace


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_view_is_the_query_in_many_more_histories(kind: Kind) -> None:
    """I1, I2, I4, I7: the same, in more histories."""
    result = play_histories([kind], range(3, 63))
    assert result.error is None, result.trace


def test_the_histories_have_everything_that_may_happen() -> None:
    """A search that finds nothing says something only if there was something to find."""
    happened: Counter[str] = Counter()
    for seed in range(10):
        run = GroupsRun(seed, TOTALS_OF_TWO, BY_UNITS)
        run.play()
        happened += run.happened
    assert set(happened) == {
        "crashes",
        "steps of zombies",
        "compactions",
        "repairs",
        "handovers",
        "downstream epochs",
    }
    assert min(happened.values()) > 2


def test_the_images_of_a_change_are_those_at_the_windows_ends() -> None:
    """The frame: by the feed or by time travel, the first old image and the last new one are the same rows."""
    for seed in range(20):
        upstream = a_history(Random(seed))
        for start in range(0, upstream.latest, 3):
            end = min(start + 3, upstream.latest)
            then, now = ({row.key: row for row in sales(upstream.as_of(version).values())} for version in (start, end))
            for old, new in images_of(upstream, start, end, old_image=first_image):
                keys = {row.key for row in (old, new) if row is not None}
                assert {(then.get(key), now.get(key)) for key in keys} <= {(old, new)}


def test_a_row_that_is_swapped_twice_has_the_image_of_the_windows_start() -> None:
    """The frame: what lies in the middle of the window is no image."""
    one, other = Sale((1,), "a", 1), Sale((2,), "b", 2)
    upstream = Upstream((KeyColumn("id"),), [one, other])
    upstream.write(Write((Update((1,), Sale((2,), "a", 1)), Update((2,), Sale((1,), "b", 2)))))
    upstream.write(Write((Delete((1,)),)))
    upstream.write(Write((Insert(Sale((1,), None, 3)),)))
    images = images_of(upstream, 0, 3, old_image=first_image)
    assert set(images) == {(one, Sale((1,), None, 3)), (other, Sale((2,), "a", 1))}


def test_a_group_without_amounts_is_there_and_its_sum_is_null() -> None:
    """A group is gone where it has no rows, and not where its sum is zero."""
    state = State.of([Sale((1,), "a", None), Sale((2,), "a", 2), Sale((3,), "a", -2)])
    assert state == State(rows=3, amounts=2, total=0, least=-2, most=2)
    assert [row.row for row in TOTALS.stored_state(("a",), state)] == [state]
    only_null = state.moved(State.of([Sale((2,), "a", 2), Sale((3,), "a", -2)]), State())
    assert TOTALS.visible(TOTALS.stored_state(("a",), only_null._replace(least=None, most=None))) == Counter(
        [("a", 1, 0, None, None, None, None)]
    )
    assert TOTALS.stored_state(("a",), State()) == []


def test_a_query_without_groups_has_one_row_also_over_nothing() -> None:
    """I1: a global aggregate over an empty upstream is a row."""
    assert GLOBAL.over([]) == Counter([(0, 0, None, None, None, None)])
    assert TOTALS.over([]) == Counter()


def test_a_unit_of_nulls_is_a_unit() -> None:
    """Columns of a unit are null one by one, and each combination is a unit of its own."""
    rows = [Sale((key,), status, 1, shop) for key, (status, shop) in enumerate([(None, None), (None, 1), ("a", None)])]
    assert set(TOTALS_OF_TWO.units(rows)) == {(None, None), (None, 1), ("a", None)}
    assert LATEST.over(rows).total() == 3


def test_a_merge_that_lost_to_a_compaction_is_refused() -> None:
    """I5: a compaction changes no row and every place, so a merge that was staged before is staged again."""
    table: Table[int] = Table([1, 2])
    staged = table.merged(lambda row: row == 1, [3])
    table.compact()
    assert not table.commit(staged, "changes", 1)
    assert table.commit(table.merged(lambda row: row == 1, [3]), "changes", 1)
    assert sorted(table.rows()) == [2, 3]
    assert sorted(table.rows(0)) == [1, 2]


def test_a_write_whose_transaction_is_there_is_skipped() -> None:
    """I2, I5: once, however often it is tried, and never after a later epoch."""
    table: Table[int] = Table()
    for epoch in (1, 1, 2, 1):
        assert table.commit(table.appended([epoch]), "chunk", epoch)
    assert table.rows() == [1, 2]


def test_equal_rows_are_not_written() -> None:
    """A view over the view sees no change where there is none."""
    table: Table[int] = Table([1, 2])
    assert table.commit(table.merged(lambda row: True, [2, 1]), "changes", 1)
    assert not table.log[-1].changes_rows
