"""Views over views that share roots: each root is read at one version, nobody goes back, and nobody waits for ever."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tests.model.histories import play_histories
from tests.model.joins_frontiers import DIAMONDS, MEETINGS, Diamond, FrontiersRun
from tests.model.joins_meeting import Epochs, Looked, Meeting, Side, agreeing, newest_agreeing

pytestmark = pytest.mark.slow  # many histories

INSTANTS = 40


@pytest.mark.parametrize("name", DIAMONDS)
def test_each_root_is_read_at_one_version(name: str) -> None:
    """I1, I3, I4: through all views between, also where jobs miss runs and commits arrive late."""
    result = play_histories([Diamond(name)], range(60))
    assert result.error is None, result.trace


@pytest.mark.parametrize("name", DIAMONDS)
def test_all_roots_may_be_read_as_of_one_instant(name: str) -> None:
    """I1, I4: by epochs of all upstream views that looked up to the same instant, and tables as of then."""
    for seed in range(INSTANTS):
        run = FrontiersRun(seed, name, Meeting(instant="one of all upstream views"), arrives_late=False)
        run.play()
        assert all(run.is_of_one_instant(looked) for looked in run.epochs["top"])


@pytest.mark.parametrize(
    ("name", "meeting", "is_always"),
    [
        ("a view and a table", Meeting(), False),
        ("a view and a table", Meeting(instant="not after an upstream view's"), True),
        ("deep", Meeting(instant="not after an upstream view's"), True),
        ("roots that overlap", Meeting(), False),
        ("roots that overlap", Meeting(instant="not after an upstream view's"), False),
        ("one root", Meeting(), True),
        ("a ring of roots", Meeting(), True),
    ],
)
def test_one_version_of_each_root_is_not_one_instant_of_all(name: str, meeting: Meeting, is_always: bool) -> None:
    """What the views do not share is of several instants, unless a rule says otherwise."""
    runs = [FrontiersRun(seed, name, meeting, arrives_late=False) for seed in range(INSTANTS)]
    for run in runs:
        run.play()
    assert all(run.is_of_one_instant(looked) for run in runs for looked in run.epochs["top"]) is is_always


@pytest.mark.parametrize(("name", "diamond"), [(n, d) for n, (_, diamonds) in MEETINGS.items() for d in diamonds])
def test_another_rule_is_caught(name: str, diamond: str) -> None:
    """Negative control for I1, I4."""
    result = play_histories([Diamond(diamond)], range(100), MEETINGS[name][0])
    assert result.error is not None
    assert result.error.startswith(("I1 truth", "I4 progress"))


def test_a_version_that_both_logs_have_of_each_root_may_be_in_no_pair_of_epochs() -> None:
    """
    Two roots: both logs have a at 2 and b at 1, and yet no two epochs agree, so the view waits.

    A common version of each root by itself says nothing.
    """
    one = [Looked(1, {"a": 1, "b": 1}), Looked(3, {"a": 2, "b": 2})]
    other = [Looked(2, {"a": 2, "b": 1})]
    assert {looked.frontier["a"] for looked in one} & {looked.frontier["a"] for looked in other} == {2}
    assert {looked.frontier["b"] for looked in one} & {looked.frontier["b"] for looked in other} == {1}
    assert agreeing([one, other]) is None
    assert agreeing([one, [*other, Looked(4, {"a": 2, "b": 2})]]) == [one[1], Looked(4, {"a": 2, "b": 2})]


def test_the_same_instant_is_not_the_same_version() -> None:
    """A commit stamped 5 arrives between two jobs' reading of a log: both looked up to 5 and saw two versions."""
    one, other = [Looked(5, {"a": 1})], [Looked(5, {"a": 2})]
    assert Meeting(sides="agree in the instant").chosen([Side(one, True), Side(other, True)]) == [*one, *other]
    assert agreeing([one, other]) is None
    assert agreeing([[*one, Looked(6, {"a": 2})], other]) == [Looked(6, {"a": 2}), Looked(5, {"a": 2})]


def test_there_is_one_newest_choice_and_it_is_found_by_stepping_back() -> None:
    """Of each side no newer epoch is in any other choice."""
    found = 0
    for seed in range(200):
        random = Random(seed)
        sides = [_a_log(random, roots) for roots in ("ab", "bc", "ca", "abc")[: random.randint(2, 4)]]
        numbers = product(*(range(len(side)) for side in sides))
        agreed = [at for at in numbers if _do_agree([side[n] for side, n in zip(sides, at, strict=True)])]
        newest = newest_agreeing(sides)
        assert (newest is None) == (not agreed)
        if newest is not None:
            found += 1
            assert tuple(newest) == tuple(max(at[side] for at in agreed) for side in range(len(sides)))
    assert found > 50


def _a_log(random: Random, roots: str) -> Epochs:
    versions, log = dict.fromkeys(roots, 0), []
    for instant in range(random.randint(1, 5)):
        versions = {root: version + random.randint(0, 1) for root, version in versions.items()}
        log.append(Looked(instant, versions))
    return log


def _do_agree(chosen: list[Looked]) -> bool:
    roots = {root for looked in chosen for root in looked.frontier}
    return all(len({one.frontier[root] for one in chosen if root in one.frontier}) == 1 for root in roots)
