"""The control table of verifications."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_backfill_provider.core.errors import NotVerifiedError, StateLayoutError
from airflow_backfill_provider.core.status.verification import AskedVerification
from airflow_backfill_provider.state import records
from airflow_backfill_provider.state.control_table import ControlTable
from airflow_backfill_provider.state.verifications import SCHEMA, Verifications
from tests.builders import NOW, compared_of, pinned_verification_of

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture
def table(lake):
    return Verifications(str(lake))


def begin(table, **changes):
    return table.begin(lambda number: pinned_verification_of(number=number, **changes))


def test_before_the_first_verification_there_is_none(table):
    assert (table.newest("a1"), table.newest_finished("a1"), table.all()) == (None, None, [])
    assert not table.table.exists()


def test_steps_are_kept_and_found_again(table, lake):
    begun = begin(table)
    assert table.newest("a1") == begun
    half = table.record(begun.pinned, compared_of(2, 3, (2, "7")))
    assert (half.steps_left, table.newest_finished("a1")) == (((0, 1),), None)
    whole = table.record(begun.pinned, compared_of(0, 1))
    assert Verifications(str(lake)).newest_finished("a1") == whole
    assert [step.first for step in whole.compared] == [0, 2]
    assert whole.keys[0].key == ("7",)


def test_the_first_result_of_a_step_stays(table):
    begun = begin(table)
    first = table.record(begun.pinned, compared_of(0, 1))
    assert table.record(begun.pinned, compared_of(0, 1, (0, "9"))) == first


def test_a_step_that_another_process_did_is_written_once(table):
    begun = begin(table)
    for _ in range(2):
        table.record(begun.pinned, compared_of(0, 1))
    assert table.table.read().num_rows == 2


def test_what_a_verification_found_is_a_row_that_people_can_query(table):
    """Keys that are too many to be kept are counted all the same."""
    begun = begin(table)
    found = compared_of(0, 1, (0, "7"), (0, "8"), (1, "9"))
    table.record(begun.pinned, found.model_copy(update={"keys": found.keys[:1], "has_all_keys": False}))
    pinned, compared = table.table.read().sort_by("first_vnode").sort_by([("event", "ascending")]).to_pylist()
    assert (pinned["event"], compared["event"]) == ("begun", "compared")
    for row in (pinned, compared):
        assert (row["number"], row["incarnation"], row["epoch"], row["requested_by"]) == (1, "a1", 41, "vera")
        assert (row["upstream_version"], row["view_version"]) == (12, 90)
    assert (compared["first_vnode"], compared["last_vnode"]) == (0, 1)
    assert (compared["expected_rows"], compared["found_rows"]) == (10, 7)
    assert (compared["differing_vnodes"], compared["differing_keys"]) == (2, 3)
    assert (pinned["at"], compared["at"]) == (begun.pinned.begun_at, found.compared_at)


def test_each_incarnation_has_its_own(table):
    old = begin(table, steps=((0, 3),))
    old = table.record(old.pinned, compared_of(0, 3))
    new = begin(table, incarnation="b2")
    assert (old.pinned.number, new.pinned.number) == (1, 2)
    assert (table.newest("a1"), table.newest("b2"), table.newest_finished("b2")) == (old, new, None)


def test_a_finished_verification_is_found_before_many_unfinished_ones(table):
    first = begin(table, steps=((0, 3),))
    first = table.record(first.pinned, compared_of(0, 3))
    for _ in range(12):
        newest = begin(table)
    assert table.newest_finished("a1") == first
    assert table.newest("a1") == newest


def test_what_a_step_reads_does_not_grow_with_the_history(table, monkeypatch):
    """Verifications are kept for ever."""
    for _ in range(5):
        kept = begin(table, steps=((0, 3),))
        table.record(kept.pinned, compared_of(0, 3))
    parsed: list[str] = []
    parse = records.parse
    monkeypatch.setattr(records, "parse", lambda model, *rest: parsed.append(model.__name__) or parse(model, *rest))

    begun = begin(table)
    table.record(begun.pinned, compared_of(0, 1))

    assert begun.pinned.number == 6
    # Before the step is written and after it: what is compared; and after it, what was found.
    assert parsed == ["PinnedVerification", "PinnedVerification", "ComparedVnodes"]


def test_two_that_begin_at_once_get_two_numbers(table):
    begin(table)
    with ThreadPoolExecutor(4) as threads:
        begun = list(threads.map(lambda _: begin(table), range(4)))
    assert sorted(found.pinned.number for found in begun) == [2, 3, 4, 5]


def test_a_step_of_a_verification_that_is_gone_is_refused(table):
    begun = begin(table)
    with pytest.raises(NotVerifiedError, match="start a new verification"):
        table.record(begun.pinned.model_copy(update={"number": 7}), compared_of(0, 1))


def test_a_step_of_another_verification_of_the_same_number_is_refused(table):
    """I6: the table was created again; this verification compares something else than the earlier one."""
    begun = begin(table)
    with pytest.raises(NotVerifiedError, match="start a new verification"):
        table.record(begun.pinned.model_copy(update={"view_version": 7}), compared_of(0, 1))


def test_a_damaged_table_is_refused(lake):
    ControlTable(str(lake / "verifications"), SCHEMA.remove(2)).create()
    with pytest.raises(StateLayoutError, match="cannot be read: .* verify the job again"):
        Verifications(str(lake)).newest("a1")


def asked_of(number, incarnation="a1"):
    return AskedVerification(
        number=number, job="paid_orders", incarnation=incarnation, requested_by="vera", requested_at=NOW
    )


def test_one_that_was_asked_for_waits_until_one_begins(table):
    assert table.waiting("a1") is None
    asked = table.ask(asked_of)
    assert (table.waiting("a1"), table.waiting("b2"), table.all()) == (asked, None, [])
    assert begin(table).pinned.number == 2
    assert table.waiting("a1") is None
    assert table.ask(asked_of).number == 3
    assert table.newest("a1").pinned.number == 2
