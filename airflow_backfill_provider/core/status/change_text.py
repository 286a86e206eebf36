"""Says in words what a change of a job's definition does to its view, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.job.definition_change import ChangeKind, ColumnsChange

_NAMES = {
    ChangeKind.NOTHING: "nothing",
    ChangeKind.TECHNIQUE: "technique",
    ChangeKind.FILTER: "filter changed",
    ChangeKind.EXPRESSIONS: "expressions changed",
    ChangeKind.COLUMNS_DROPPED: "columns dropped",
    ChangeKind.COLUMNS_ADDED: "columns added",
    ChangeKind.COLUMNS_CHANGED: "columns changed",
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
    cost = f"cost: {_COSTS[kind].format(rows=text.rows(rows))}"
    return (told, cost, ALTERNATIVE) if kind.changes_columns else (told, cost)


_COSTS = {
    ChangeKind.NOTHING: "none; no row is read or written",
    ChangeKind.TECHNIQUE: "none; the next epochs choose anew how they compute the view",
    ChangeKind.FILTER: (
        "the next epoch reads the used columns of {rows} of the upstream, without a rate limit, and writes only the "
        "rows that leave the view or come to it, in one commit; if the condition uses a column that the upstream did "
        "not have at the last epoch, it computes the whole view"
    ),
    ChangeKind.EXPRESSIONS: (
        "the next epoch reads the used columns of {rows} of the upstream and the whole view, without a rate limit, and "
        "writes the rows that differ, in one commit; if most rows differ, rebuild --keep-serving costs less. If the "
        "query gives other columns, all rows are written: only Spark can tell, before anything is recorded"
    ),
    **dict.fromkeys(
        (ChangeKind.COLUMNS_DROPPED, ChangeKind.COLUMNS_ADDED, ChangeKind.COLUMNS_CHANGED),
        "the next epoch reads the used columns of {rows} of the upstream and writes the whole view with its new "
        "columns, in one commit and without a rate limit, even if the job has one; that costs one CREATE TABLE AS "
        "SELECT",
    ),
}

ALTERNATIVE = (
    "alternative: airflow-backfill rebuild --keep-serving writes as much, but in throttled epochs that can be resumed, "
    "beside the view"
)
"""What somebody can do who cannot bear the epoch of other columns."""


WAITS_FIRST = (
    "approval: the change waits until somebody has seen the difference and approved it (cut_over: on_approval)"
)
"""What happens before the epoch of a change, if it waits for an approval."""

WAITS_LINE = (
    "the change waits for an approval, and the view stays as it is; see airflow-backfill diff, and approve it with "
    "airflow-backfill approve"
)
"""What happens next, after a change was proposed."""


def done_line(kind: ChangeKind, columns: ColumnsChange | None = None) -> str:
    """
    Return what happens next, after a change was made.

    :param columns: the columns that come, go or change, as Spark found them.
    """
    if kind.keeps_rows:
        return "the definition is changed; the view stays as it is"
    if columns is not None:
        return (
            f"the definition is changed; the next epoch writes the whole view with its new columns ({columns}), in one "
            "commit"
        )
    return "the definition is changed; the next epoch brings the view to the new query, in one commit"


def downstream_line(kind: ChangeKind) -> str:
    """Return what the jobs that read the view get of a change."""
    if kind.changes_columns:
        return (
            "gets all rows again, as removed and inserted; if it uses a column that goes or gets another type, its "
            "epochs are refused until its own query is changed"
        )
    return "gets the difference as changes"


def missed_line(columns: Sequence[str]) -> str:
    """
    Return what a job has to do that reads a view which gets other columns.

    :param columns: those of the columns that go or get another type that it uses.
    """
    return (
        f"uses {', '.join(columns)}: after the next epoch of this job, its own are refused until you have adapted its "
        "query and run airflow-backfill change for it"
    )
