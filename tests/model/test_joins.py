"""Views over several upstreams in random histories: the view is the query over all of them, as of one instant."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pytest

from tests.model import joins_catalog as joins
from tests.model.groups_mutants import BY_UNITS, WHOLE
from tests.model.groups_queries import DISTINCT, TOTALS
from tests.model.histories import play_histories
from tests.model.joins_affected import Trace, Tracing
from tests.model.joins_examples import a_view, after_windows, labels
from tests.model.joins_job import DuplicateKeyError, JoinProtocol
from tests.model.joins_mutants import DOUBLED, KINDS, Kind
from tests.model.joins_queries import BY_LEAD, Joined, JoinQuery
from tests.model.joins_runs import JoinsRun
from tests.model.joins_stage1 import Stage1
from tests.model.joins_tables import Record, a_world
from tests.model.joins_windows import MUTANTS, PinnedWindows

pytestmark = pytest.mark.slow  # many histories

CUSTOMERS = [Record(1, label="a"), Record(2, label="b")]
ORDERS = [Record(1, first=1), Record(2, first=2), Record(3, first=3)]


def kinds_of(query: JoinQuery) -> list[Kind]:
    """Return the kinds of a query in which no table has a key twice."""
    return [kind for kind in KINDS if kind.stage_1 is query and not kind.doubled]


@pytest.mark.parametrize("query", joins.ALL, ids=lambda query: query.name)
def test_the_view_is_the_query_over_all_upstreams(query: JoinQuery) -> None:
    """I1, I2, I4, I7: under each strategy, as lead rows and as groups, with crashes, zombies, repairs and rebuilds."""
    kinds = kinds_of(query)
    result = play_histories([*(kind for kind in kinds if kind.stage_2 is BY_LEAD), *kinds[5::4]], range(1))
    assert result.error is None, result.trace


@pytest.mark.parametrize("query", joins.ALL, ids=lambda query: query.name)
def test_the_view_is_the_query_in_many_more_histories(query: JoinQuery) -> None:
    """I1, I2, I4, I7: the same, in more histories."""
    result = play_histories(kinds_of(query), range(1, 8))
    assert result.error is None, result.trace


@pytest.mark.parametrize("kind", DOUBLED, ids=str)
def test_an_epoch_with_a_key_twice_is_refused_and_nothing_is_lost(kind: Kind) -> None:
    """I6: before the first write. Once the owner has corrected the table, the next epoch has all changes."""
    result = play_histories([kind], range(4))
    assert result.error is None, result.trace


def test_the_histories_have_everything_that_may_happen() -> None:
    """A search that finds nothing says something only if there was something to find."""
    happened: Counter[str] = Counter()
    for seed, doubled in product(range(20), ((), ("customers",))):
        run = JoinsRun(seed, joins.TWO, BY_LEAD, BY_UNITS, doubled=doubled)
        run.play()
        happened += run.happened
    assert set(happened) == {
        "crashes",
        "steps of zombies",
        "compactions",
        "repairs",
        "handovers",
        "downstream epochs",
        "refusals",
    }
    assert min(happened.values()) > 2


@pytest.mark.parametrize("query", joins.ALL, ids=lambda query: query.name)
def test_each_lead_whose_rows_change_is_affected(query: JoinQuery) -> None:
    """The frame: whichever tables changed, and however far down the tree of joins."""
    changed = 0
    for seed in range(4):
        stage_1 = Stage1(a_world(Random(seed), query.tables), query)
        for start, end in ((start, start + length) for length in (1, 3) for start in range(0, 12, 2)):
            then, now = (set(stage_1.rows(instant, instant)) for instant in (start, end))
            differing = {(row.branch, row.lead) for row in then ^ now}
            for number, branch in enumerate(query.branches):
                affected = Trace(stage_1.world, branch, start, end).leads()
                assert {lead for of, lead in differing if of == number} <= affected
            changed += len(differing)
    assert changed


@pytest.mark.parametrize("query", joins.ALL, ids=lambda query: query.name)
def test_the_key_of_the_view_is_unique(query: JoinQuery) -> None:
    """The branch, the lead's key and the key of each fan-out tell all rows of stage 1 apart."""
    stage_1 = Stage1(a_world(Random(1), query.tables), query)
    for instant in range(0, stage_1.latest, 2):
        assert len(stage_1.rows(instant, instant)) == len(stage_1.as_of(instant))


def test_a_window_in_which_only_a_dimension_changed_is_not_idle() -> None:
    """I1: the lead rests, and its rows change all the same."""
    view = a_view(
        joins.CHAIN, {"orders": [ORDERS], "customers": [CUSTOMERS, [Record(1, label="c")]], "countries": [[]]}
    )
    assert labels(after_windows(view, 1)) == [(1, "c", None), (2, None, None), (3, None, None)]


def test_a_dimension_that_rests_for_long_holds_nobody_back() -> None:
    """I4: its window ends at T without a commit, and is empty."""
    orders = [ORDERS, *([Record(1, first=2, number=n)] for n in range(5))]
    view = a_view(joins.TWO, {"orders": orders, "customers": [CUSTOMERS], "products": [[]]})
    assert labels(after_windows(view, 2, 5)) == [(1, "b", None)]


def test_a_dimension_is_emptied_and_replaced() -> None:
    """I1: TRUNCATE, and an overwrite of all rows, are changes of each row."""
    customers = [CUSTOMERS, [], [Record(2, label="c"), Record(3, label="c")]]
    view = a_view(joins.TWO, {"orders": [ORDERS], "customers": customers, "products": [[]]})
    assert labels(after_windows(view, 1)) == [(1, None, None), (2, None, None), (3, None, None)]
    assert labels(after_windows(view, 2)) == [(1, None, None), (2, "c", None), (3, "c", None)]


def test_a_key_that_was_twice_in_a_window_leaves_its_rows_wrong_if_it_is_netted() -> None:
    """
    I1: of an insert of (1, b) and a delete of (1, a), the net by key is nothing: neither an old row nor a new one.

    So the join values come from every row of the feed, and no dimension is netted.
    """
    customers = [[Record(1, label="a")], [Record(1, label="a"), Record(1, label="b")], [Record(1, label="b")]]
    tables = {"orders": [ORDERS[:1]], "customers": customers, "products": [[]]}
    view = a_view(joins.TWO, tables)
    with pytest.raises(DuplicateKeyError):
        after_windows(view, 1)
    assert labels(after_windows(view)) == [(1, "a", None)]
    assert labels(after_windows(view, 2)) == [(1, "b", None)]
    netted = a_view(joins.TWO, tables, protocol=JoinProtocol(tracing=Tracing(images="net")))
    assert labels(after_windows(netted, 2)) == [(1, "a", None)]


def test_a_key_that_is_twice_is_looked_for_among_all_changes() -> None:
    """I6: the net by key of two inserts and a delete is nothing, and the key is there twice all the same."""
    one, two, three = (Record(1, label=label) for label in "abc")
    tables = {"orders": [ORDERS[:1]], "customers": [[one], [one, two, three], [one, three]], "products": [[]]}
    with pytest.raises(DuplicateKeyError):
        after_windows(a_view(joins.TWO, tables, protocol=JoinProtocol(duplicates="looked for among changed keys")), 2)
    netted = a_view(joins.TWO, tables, protocol=JoinProtocol(duplicates="looked for among netted keys"))
    assert labels(after_windows(netted, 2)) == [(1, "a", None), (1, "c", None)]


def test_a_key_of_a_dimension_that_only_a_semi_join_asks_for_may_be_there_twice() -> None:
    """I6: whether there is a match does not depend on how many there are."""
    parcels = [[], [Record(1), Record(1)], [Record(1)]]
    view = a_view(joins.NOT_IN, {"orders": [ORDERS], "parcels": parcels})
    assert labels(after_windows(view, 1)) == [(2,), (3,)]
    assert labels(after_windows(view, 2)) == [(2,), (3,)]


@pytest.mark.parametrize(
    ("query", "came", "now"),
    [(joins.NOT_IN_NULLABLE, Record(1, first=None), {}), (joins.NOT_IN_NULLABLE_LEAD, Record(1), {2})],
    ids=["of the subquery", "of the lead"],
)
def test_a_nullable_column_of_a_not_in_changes_leads_that_no_value_finds(query, came, now) -> None:
    """NOT IN is an anti join only if both columns are not null. So it is refused where one of them is nullable."""
    orders = [[Record(1), Record(2, first=2)]]
    view = a_view(query, {"orders": orders, "parcels": [[], [came]]})
    assert {key for (key,) in view.upstream.as_of(1)} == set(now)
    assert labels(after_windows(view, 1)) == [(1,), (2,)]


def test_a_row_of_a_fan_out_has_the_keys_of_all_its_fan_outs() -> None:
    """The view's key adds the key of each fan-out, null without a match, and never that of a lookup."""
    lines = [Record(7, first=1), Record(8, first=1)]
    view = a_view(joins.TWO_FANS, {"orders": [ORDERS[:2]], "lines": [lines], "parcels": [[]]})
    keys = [row.key for row in view.rows_at(0) if isinstance(row, Joined)]
    assert sorted(keys, key=str) == [(1, 7, None), (1, 8, None), (2, None, None)]
    (lookup,) = joins.TWO.branches[0].joins[:1]
    assert (lookup.is_lookup, lookup.is_fan_out) == (True, False)


def test_a_group_is_made_of_rows_of_stage_1_and_not_of_leads() -> None:
    """I1: totals of lines by the label of an order's product."""
    lines = [[Record(7, first=1, second=1, number=2), Record(8, first=1, second=1, number=3)]]
    products = [[Record(1, label="a")], [Record(1, label="b")], []]
    view = a_view(joins.FAN, {"orders": [ORDERS[:1]], "lines": lines, "products": products}, TOTALS)
    assert after_windows(view, 1) == [("b", 2, 2, 5, 2.5, 2, 3)]
    assert after_windows(view, 2) == [(None, 2, 2, 5, 2.5, 2, 3)]


def test_a_row_of_a_union_stays_as_long_as_any_branch_gives_it() -> None:
    """I1: UNION is DISTINCT over UNION ALL. Two branches have one row, and then one of them, and then none."""
    order, archived = Record(1, first=2, second=1), Record(1, first=1, second=1)
    tables = {
        "orders": [[order], [order], []],
        "archive": [[archived], [], []],
        "customers": [[Record(1, label="a"), Record(2, first=0)]],
        "countries": [[Record(0, label="a")]],
    }
    view = a_view(joins.UNION, tables, DISTINCT)
    assert after_windows(view) == [("a", 1)]
    assert after_windows(view, 1) == [("a", 1)]
    assert after_windows(view, 2) == []


def test_an_arrangement_has_a_lead_in_each_unit_of_its_rows() -> None:
    """I1: two lines of an order are of two groups, which lie in several chunks; each gets its own rows alone."""
    lines = [[Record(7, first=1, second=1, number=2), Record(8, first=1, second=2, number=3)]]
    products = [[Record(1, label="a"), Record(2, label="b")]]
    tables = {"orders": [ORDERS[:1]], "lines": lines, "products": products}
    view = a_view(joins.FAN, tables, TOTALS, strategy=BY_UNITS)
    assert {(row.key[0], row.status) for row in view.arranged(0)} == {(1, "a"), (1, "b")}
    assert after_windows(view) == [("a", 1, 1, 2, 2.0, 2, 2), ("b", 1, 1, 3, 3.0, 3, 3)]


def test_windows_end_at_one_instant_and_never_go_back() -> None:
    """I1, I3, I4: T is read before the logs; who rests holds nobody back; a commit that arrives late is not lost."""
    result = play_histories([PinnedWindows()], range(100))
    assert result.error is None, result.trace


@pytest.mark.parametrize("name", MUTANTS)
def test_other_ends_of_windows_are_caught(name: str) -> None:
    """Negative control for I1, I3, I4."""
    result = play_histories([PinnedWindows()], range(100), MUTANTS[name])
    assert result.error is not None
    assert result.error.startswith(("I1 truth", "I3 monotonic", "I4 progress"))


def test_a_finished_view_is_whole_at_each_version() -> None:
    """I7: an epoch of a join makes one commit that changes rows, a repair's included."""
    for seed in range(10):
        run = JoinsRun(seed, joins.FAN, BY_LEAD, WHOLE)
        run.play()
        assert run.watch.begun
