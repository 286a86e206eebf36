"""How a difference is told."""

from __future__ import annotations

from airflow_backfill_provider.core.job.cut_over import CutOverKind, CutOverSubject
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.difference_text import (
    difference_lines,
    key_line,
    left_out,
    question,
    value_lines,
)
from airflow_backfill_provider.core.status.view_difference import (
    ChangedKey,
    ComparedSide,
    ComparedVersions,
    RowChange,
    RowDifference,
    RowValues,
    ViewDifference,
)
from tests.builders import NOW

SERVED = ComparedSide(view_version=4, epoch=3, upstreams={"upstream": Offset(5)})
WAITING = ComparedSide(view_version=9, epoch=2, upstreams={"upstream": Offset(5)})


def difference(rows: RowDifference, served=SERVED, waiting=WAITING, kind=CutOverKind.REBUILD) -> ViewDifference:
    return ViewDifference(
        number=7,
        job="paid_orders",
        subject=CutOverSubject(kind=kind, incarnation="a1", definition="d"),
        sides=ComparedVersions(served=served, waiting=waiting),
        rows=rows,
        requested_by="vera",
        compared_at=NOW,
    )


def test_rows_and_columns_are_told_with_their_numbers():
    rows = RowDifference(
        rows_before=1000,
        rows_after=1001,
        added=3,
        removed=2,
        changed=1200,
        columns={"cents": 1200, "name": 1},
        columns_added=("loud",),
        columns_removed=("old", "older"),
        columns_retyped=("price",),
    )
    assert difference_lines(difference(rows)) == (
        "difference 7: the rebuild (version 9, upstream at 5) against the view that serves (version 4)",
        "rows: 1,000 now, 1,001 then; 3 added, 2 removed, 1,200 changed",
        "changed columns: cents in 1,200, name in 1",
        "columns added: loud",
        "columns removed: old, older",
        "columns of another type, not compared: price",
    )


def test_sides_of_two_points_say_so_and_a_first_backfill_has_one_side():
    rows = RowDifference(rows_before=3, rows_after=3)
    behind = ComparedSide(view_version=9, epoch=2, upstreams={"o": Offset(4), "c": Offset(7)})
    told = difference_lines(difference(rows, waiting=behind))[0]
    assert told.endswith(
        "(version 9, upstreams at o 4, c 7) against the view that serves (version 4, upstream at 5); the changes "
        "between these offsets count as differences, too"
    )
    told = difference_lines(difference(rows, served=None, kind=CutOverKind.BACKFILL))
    assert told == (
        "difference 7: the backfill (version 9, upstream at 5); no view serves yet",
        "rows: 3 now, 3 then; 0 added, 0 removed, 0 changed",
        "nothing differs",
    )


def test_a_query_without_a_view_has_no_version():
    query = ComparedSide(view_version=None, epoch=3, upstreams={"upstream": Offset(5)})
    rows = RowDifference(rows_before=3, rows_after=4, added=2, removed=1, has_key=False)
    told = difference_lines(difference(rows, waiting=query, kind=CutOverKind.CHANGE))
    assert told[0] == "difference 7: the changed query (upstream at 5) against the view that serves (version 4)"
    assert told[-1] == "the views have no common key, so a row that changed counts as removed and as added"


def test_keys_values_and_what_is_left_out():
    found = ChangedKey(kind=RowChange.CHANGED, key=("ü", None), columns=("a", "b"))
    assert key_line(found) == 'changed: ["ü", null] in a, b'
    assert key_line(ChangedKey(kind=RowChange.ADDED, key=("1",))) == 'added: ["1"]'
    rows = RowDifference(rows_before=1, rows_after=1, added=3, sample=(found,))
    assert (left_out(rows), left_out(rows.model_copy(update={"has_key": False}))) == (2, 0)
    assert value_lines(RowValues(key=("1",), before=(), after=({"a": None, "b": "x"},))) == (
        'then: {"a": null, "b": "x"}',
    )


def test_the_question_says_what_would_go_live():
    rows = RowDifference(rows_before=3, rows_after=1, added=0, removed=2, changed=1)
    assert question(difference(rows)) == (
        "Let the rebuild of paid_orders go live, 1 row (0 added, 2 removed, 1 changed)?"
    )
