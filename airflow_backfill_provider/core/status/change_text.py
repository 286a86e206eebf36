"""Says in words what a change of a job's definition does to its view, and what it costs."""

from __future__ import annotations

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.job.definition_change import ChangeKind

_NAMES = {
    ChangeKind.NOTHING: "nothing",
    ChangeKind.TECHNIQUE: "technique",
    ChangeKind.FILTER: "filter changed",
    ChangeKind.EXPRESSIONS: "expressions changed",
    ChangeKind.COLUMNS_DROPPED: "columns dropped",
    ChangeKind.COLUMNS_ADDED: "columns added",
    ChangeKind.EVERYTHING: "everything",
}


def change_lines(kind: ChangeKind, reason: str, impossible: str, rows: int) -> tuple[str, ...]:
    """
    Return the class of a change, its reason, and its cost.

    :param reason: what differs.
    :param impossible: why only a rebuild can make the change; empty if it is possible.
    :param rows: the upstream's rows.
    """
    told = f"class: {_NAMES[kind]} ({reason})"
    if impossible:
        why = "" if impossible == reason else f" ({impossible})"
        return told, f"cost: a rebuild{why}, which reads and writes {text.rows(rows)} of the upstream"
    return told, f"cost: {_COSTS[kind].format(rows=text.rows(rows))}"


_COSTS = {
    ChangeKind.NOTHING: "none; no row is read or written",
    ChangeKind.TECHNIQUE: "none; the next epochs choose anew how they compute the view",
    ChangeKind.FILTER: (
        "the next epoch reads the used columns of {rows} of the upstream, without a rate limit, and writes only the "
        "rows that leave the view or come to it, in one commit"
    ),
    ChangeKind.EXPRESSIONS: (
        "the next epoch reads the used columns of {rows} of the upstream and the whole view, without a rate limit, and "
        "writes the rows that differ, in one commit; if most rows differ, rebuild --keep-serving costs less"
    ),
}


WAITS_FIRST = (
    "approval: the change waits until somebody has seen the difference and approved it (cut_over: on_approval)"
)
"""What happens before the epoch of a change, if it waits for an approval."""

WAITS_LINE = (
    "the change waits for an approval, and the view stays as it is; see airflow-backfill diff, and approve it with "
    "airflow-backfill approve"
)
"""What happens next, after a change was proposed."""


def done_line(kind: ChangeKind) -> str:
    """Return what happens next, after a change was made."""
    if kind.keeps_rows:
        return "the definition is changed; the view stays as it is"
    return "the definition is changed; the next epoch brings the view to the new query, in one commit"
