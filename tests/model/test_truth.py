"""The checks themselves: each kind of damage is seen, and nothing else."""

from __future__ import annotations

import pytest

from tests.model.tables import View
from tests.model.truth import (
    COMPLETED,
    NOT_STARTED,
    InvariantError,
    Output,
    Phase,
    Progress,
    check_monotonic,
    check_truth,
)
from tests.model.upstream import KeyOrder
from tests.strategies import Key, KeyColumn

ORDER = KeyOrder([KeyColumn("id")])
DESCENDING = KeyOrder([KeyColumn("id", descending=True)])


def at(key: int | None) -> Progress:
    return Progress(Phase.IN_PROGRESS, (key,))


STEPS_FORWARD = [
    (NOT_STARTED, NOT_STARTED),
    (NOT_STARTED, at(None)),
    (NOT_STARTED, COMPLETED),
    (at(None), at(0)),
    (at(1), at(1)),
    (at(1), at(2)),
    (at(2), COMPLETED),
    (COMPLETED, COMPLETED),
]


@pytest.mark.parametrize(("before", "after"), STEPS_FORWARD)
def test_a_step_forward_is_monotonic(before: Progress, after: Progress) -> None:
    """I3: standing still and going on are fine."""
    check_monotonic(ORDER, (1, before, 5), (1, after, 5))
    check_monotonic(ORDER, (1, before, 5), (2, after, 6))


@pytest.mark.parametrize(("before", "after"), [pair for pair in STEPS_FORWARD if pair[0] != pair[1]])
def test_a_step_back_is_seen(before: Progress, after: Progress) -> None:
    """I3: a position or a phase that goes back, whatever epoch and row count say."""
    with pytest.raises(InvariantError, match="I3 monotonic"):
        check_monotonic(ORDER, (1, after, 5), (2, before, 6))


def test_epochs_row_counts_and_directions_are_seen() -> None:
    """I3: lower epochs and row counts go back, and in a descending key higher positions do."""
    for after in [(0, at(2), 5), (1, at(2), 4)]:
        with pytest.raises(InvariantError, match="I3 monotonic"):
            check_monotonic(ORDER, (1, at(1), 5), after)
    check_monotonic(DESCENDING, (1, at(2), 5), (2, at(1), 5))
    with pytest.raises(InvariantError, match="I3 monotonic"):
        check_monotonic(DESCENDING, (1, at(1), 5), (2, at(2), 5))


def test_lost_extra_changed_and_doubled_rows_are_seen() -> None:
    """I1: a view that differs from the truth in one row, or holds one twice."""
    truth: dict[Key, Output] = {(1,): ("a",), (2,): ("b",)}
    right = View().appended(truth.items())
    check_truth(right.rows(), truth)
    wrong = [
        right.merged({(1,): None}),
        right.merged({(3,): ("c",)}),
        right.merged({(1,): ("c",)}),
        right.appended([((1,), ("a",))]),
        right.appended([((1,), ("c",))]),
    ]
    for view in wrong:
        with pytest.raises(InvariantError, match="I1 truth"):
            check_truth(view.rows(), truth)
