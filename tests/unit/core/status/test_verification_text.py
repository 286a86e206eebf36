"""A verification in a line of text."""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow_backfill_provider.core.status import verification_text
from airflow_backfill_provider.core.status.differences import (
    DifferenceKind,
    DifferingKey,
)
from airflow_backfill_provider.core.status.verification import (
    ComparedVnodes,
    Verification,
)
from airflow_backfill_provider.core.status.verified_state import SAMPLE, VerifiedState
from tests.builders import NOW, compared_of, pinned_verification_of


def verification_of(*steps: ComparedVnodes, **changes: Any) -> Verification:
    return Verification(pinned_verification_of(**changes), steps)


def test_a_view_that_is_equal_is_said_to_be_verified():
    found = VerifiedState.of(verification_of(compared_of(0, 1), compared_of(2, 3)))
    assert verification_text.verified_line(found, NOW + dt.timedelta(hours=3)) == "verified at epoch 41, 2 h 59 min ago"
    assert verification_text.verified_line(found, NOW) == "verified at epoch 41, 0 s ago"
    assert verification_text.verified_line(None, NOW) == "never verified"
    assert verification_text.compared_line("paid_orders", found) == (
        "paid_orders as of epoch 41, upstream offset 12: 20 rows expected, 0 missing, 0 unexpected, 0 repeated, "
        "0 different"
    )


def test_rows_that_cannot_be_compared_are_told():
    found = VerifiedState.of(verification_of(compared_of(0, 1, removed_rows=1_000), compared_of(2, 3, removed_rows=2)))
    assert (found.equal, found.removed_rows) == (True, 1_002)
    assert verification_text.compared_line("paid_orders", found).endswith(
        " different; 1,002 rows whose source records are gone, not compared"
    )
    one = VerifiedState.of(verification_of(compared_of(0, 1, removed_rows=1), compared_of(2, 3)))
    assert verification_text.compared_line("paid_orders", one).endswith(
        " different; 1 row whose source record is gone, not compared"
    )


def test_a_view_that_differs_is_said_to_differ_and_where():
    keys = [(0, str(number)) for number in range(20)]
    found = VerifiedState.of(verification_of(compared_of(0, 1, *keys), compared_of(2, 3)))
    assert (found.equal, found.vnodes, found.differing_keys, len(found.sample)) == (False, "0", 20, SAMPLE)
    line = verification_text.verified_line(found, NOW + dt.timedelta(minutes=2))
    assert line == "differs from its query at epoch 41, 1 min 0 s ago: 20 keys differ, in the vnodes 0"
    assert verification_text.key_line(found.sample[0]) == 'missing: ["0"] of vnode 0'
    different = DifferingKey(kind=DifferenceKind.DIFFERENT, vnode=3, key=("ä", None), columns=("a", "b"))
    assert verification_text.key_line(different) == 'different: ["ä", null] of vnode 3 in a, b'
