"""Frontiers: the newest epochs of all sides that agree on every root that they share, as the model chooses them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.core.epoch.frontiers import (
    HeldBack,
    Looked,
    TableSide,
    ViewSide,
    held_back,
    merged,
    newest_agreeing,
    oldest_agreeing_after,
)
from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from tests.builders import NOW
from tests.model import joins_meeting as model

ROOTS = ("ab", "bc", "ca", "abc", "a")


def looked(offset: int, **frontier: int) -> Looked:
    return Looked(offset=Offset(offset), frontier={r: Offset(v) for r, v in frontier.items()}, instant=NOW)


def view(*frontiers: dict[str, int]) -> ViewSide:
    """Return the side of a view with these epochs, oldest first."""
    return ViewSide([looked(number, **frontier) for number, frontier in enumerate(frontiers)][::-1])


def table(root: str, newest: int, since: int = 0) -> TableSide:
    return TableSide(root=root, newest=Offset(newest), since=Offset(since), committed_at=lambda _: NOW)


def numbers(chosen):
    return None if chosen is None else {name: one.offset.number for name, one in chosen.items()}


@st.composite
def logs(draw: st.DrawFn) -> list[list[dict[str, int]]]:
    """Return the frontiers of the epochs of some views; no root goes back."""
    found = []
    for roots in draw(st.lists(st.sampled_from(ROOTS), min_size=2, max_size=4)):
        versions, log = dict.fromkeys(roots, 0), []
        for steps in draw(st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), max_size=6)):
            versions = {root: version + step for (root, version), step in zip(versions.items(), steps, strict=False)}
            log.append(versions)
        found.append(log)
    return found


def chosen_by_model(found: Sequence[Sequence[dict[str, int]]]) -> dict[str, int] | None:
    at = model.newest_agreeing([[model.Looked(0, frontier) for frontier in log] for log in found])
    return None if at is None else {str(name): number for name, number in enumerate(at)}


@given(logs())
def test_the_newest_epochs_that_agree_are_those_of_the_model(found):
    """I1: every shared root is read at one version."""
    sides = {str(name): view(*log) for name, log in enumerate(found)}
    assert numbers(newest_agreeing(sides)) == chosen_by_model(found)


@given(logs(), st.integers(0, 12))
def test_a_table_that_is_a_root_is_a_side_whose_epochs_are_its_versions(found, newest):
    versions = [{"a": version} for version in range(newest + 1)]
    sides = {**{str(name): view(*log) for name, log in enumerate(found)}, str(len(found)): table("a", newest)}
    assert numbers(newest_agreeing(sides)) == chosen_by_model([*found, versions])


@given(logs(), st.integers(0, 5))
def test_a_step_is_the_oldest_that_agrees_after_an_offset(found, end):
    """I4: if nothing agrees before the end of a step, the step goes on to the next that does."""
    sides = {str(name): view(*log) for name, log in enumerate(found)}
    chosen = numbers(oldest_agreeing_after(sides, "0", Offset(end)))
    steps = []
    for last in range(len(found[0]), 0, -1):
        at = chosen_by_model([found[0][:last], *found[1:]])
        if at is not None and at["0"] > end:
            steps.append(at)
    assert chosen == (steps[-1] if steps else None)


def test_a_step_of_a_table_goes_by_the_views_of_it():
    sides = {"v": view({"a": 1}, {"a": 4}, {"a": 9}), "a": table("a", 11)}
    assert numbers(oldest_agreeing_after(sides, "a", Offset(2))) == {"v": 1, "a": 4}
    assert oldest_agreeing_after({"v": view({"b": 1}), "a": table("a", 1)}, "a", Offset(1)) is None


def test_the_lesser_frontier_is_no_bound_that_is_enough():
    """The newest epochs at or before the lesser frontier may still differ."""
    sides = {"one": view({"a": 1}, {"a": 3}), "other": view({"a": 1}, {"a": 2}, {"a": 4})}
    assert numbers(newest_agreeing(sides)) == {"one": 0, "other": 0}


def test_a_version_that_both_logs_have_of_each_root_may_be_in_no_pair_of_epochs():
    sides = {"one": view({"a": 1, "b": 1}, {"a": 2, "b": 2}), "other": view({"a": 2, "b": 1})}
    assert newest_agreeing(sides) is None


def test_a_table_is_not_read_before_where_the_job_is():
    assert newest_agreeing({"v": view({"a": 1}), "a": table("a", 5, since=2)}) is None
    assert table("a", 5).newest_within({"a": BEGINNING}) is None


def test_a_log_is_read_only_as_far_as_somebody_asks():
    read = []

    def epochs():
        for number in range(9, 0, -1):
            read.append(number)
            yield looked(number, a=number)

    side = ViewSide(epochs())
    assert numbers(newest_agreeing({"v": side, "a": table("a", 7)})) == {"v": 7, "a": 7}
    assert read == [9, 8, 7]
    assert [one.offset.number for one, _ in zip(side, side.up_to(Offset(8)), strict=False)] == list(range(9, 1, -1))


def test_the_frontier_of_what_is_read_has_all_roots():
    chosen = {"v": looked(1, a=1, b=2), "c": looked(5, c=5)}
    assert merged(chosen) == {"a": Offset(1), "b": Offset(2), "c": Offset(5)}


def test_who_is_ahead_waits_for_who_is_behind():
    """Also if nothing agrees at all, so that nothing is read."""
    apart = {"one": view({"a": 3}), "other": view({"a": 1})}
    nowhere = dict.fromkeys(apart, BEGINNING)
    assert list(held_back(apart, nowhere)) == [HeldBack(ahead="one", behind="other", root="a")]
    sides = {"one": view({"a": 1}, {"a": 3}), "other": view({"a": 1}), "third": view({"c": 9})}
    ends = {"one": Offset(0), "other": Offset(0), "third": Offset(0)}
    assert list(held_back(sides, ends)) == [HeldBack(ahead="one", behind="other", root="a")]
    assert list(held_back(sides, {**ends, "one": Offset(1)})) == []


def test_in_a_ring_all_wait_for_the_one_that_did_not_step_back():
    sides = {
        "ab": view({"a": 1, "b": 1}, {"a": 2, "b": 1}),
        "bc": view({"b": 1, "c": 1}),
        "ca": view({"c": 1, "a": 1}, {"c": 2, "a": 2}),
    }
    chosen = newest_agreeing(sides)
    assert numbers(chosen) == {"ab": 0, "bc": 0, "ca": 0}
    held = list(held_back(sides, {name: one.offset for name, one in chosen.items()}))
    assert [(one.ahead, one.behind, one.root) for one in held] == [("ab", "bc", "c"), ("ca", "bc", "c")]


def test_what_is_read_is_of_the_instant_of_its_newest_commit():
    side = TableSide(
        root="a",
        newest=Offset(3),
        since=Offset(0),
        committed_at=lambda offset: NOW + dt.timedelta(minutes=offset.number),
    )
    assert side.up_to(Offset(2)).newest_within({}).instant == NOW + dt.timedelta(minutes=2)
