"""Answers in sentences."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.status.row_answer import Reason, RowAnswer, WrittenRow
from airflow_backfill_provider.core.status.row_answer_text import describe
from tests.builders import NOW

COMMIT = WrittenRow(
    version=7, written_at=NOW, operation="MERGE", by="vera", is_certain=True, stamp='{"event": "epoch", "epoch": 3}'
)


def answer(reason: Reason, **fields):
    return RowAnswer(**{"job": "paid", "key": ("4711",), "reason": reason, "present": False, **fields})


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence(reason):
    assert describe(answer(reason))[0].startswith('the view of paid does not have ["4711"]: ')


def test_a_row_comes_with_its_commits_and_its_verification():
    found = answer(
        Reason.CHANGE,
        present=True,
        epoch=3,
        epoch_by="tester",
        view=COMMIT,
        upstream=COMMIT.model_copy(update={"is_certain": False, "by": "", "written_at": None}),
        verified_epoch=5,
        verified_at=NOW,
        notes=("rows of customers changed in the same epoch",),
    )
    assert describe(found) == [
        'the view of paid has ["4711"]: epoch 3 applied a change of it',
        "view: version 7 (MERGE), 2026-03-29 01:30:00 UTC, by vera, requested by tester",
        "upstream: version 7 or an earlier one, whose files are gone (MERGE)",
        "verified equal at epoch 5, 2026-03-29 01:30:00 UTC",
        "rows of customers changed in the same epoch",
    ]


def test_a_row_that_is_left_out_comes_with_the_conditions():
    lines = describe(answer(Reason.FILTERED, conditions=("n > 3",), undecided=("f(n)",), vnode=2, rows_read_of_vnode=9))
    assert lines[1:] == ["not met: n > 3", "not checked, which takes Spark: f(n)", "its vnode 2 has read 9 rows"]


def test_a_row_that_was_removed_comes_with_who_removed_it():
    assert describe(answer(Reason.DELETED, upstream=COMMIT))[1].startswith("upstream: removed in version 7 (MERGE)")


def test_the_stamp_is_read_and_not_shown():
    assert COMMIT.stamped == {"event": "epoch", "epoch": 3}
    assert "stamp" not in COMMIT.model_dump()
