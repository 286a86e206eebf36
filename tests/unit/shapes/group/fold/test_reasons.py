"""A reason is one sentence."""

from airflow_backfill_provider.shapes.group.fold.reasons import NotFolded, Reason


def test_a_reason_may_have_no_advice() -> None:
    assert str(NotFolded(Reason.TYPE, "sum(v)", "it is a text")) == "sum(v) cannot be folded: it is a text"
