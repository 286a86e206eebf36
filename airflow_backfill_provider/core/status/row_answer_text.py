"""The answer why a view has a row, in sentences."""

from __future__ import annotations

import json

from airflow_backfill_provider.core.status.row_answer import Reason, RowAnswer, WrittenRow

_PRESENT = {
    Reason.CHUNK: "epoch {epoch} read it with history",
    Reason.CHANGE: "epoch {epoch} applied a change of it",
    Reason.REPAIR: "epoch {epoch} repaired it",
    Reason.COPIED: "it came with the rows that the table began with",
    Reason.UNKNOWN: "the view's log no longer says which epoch wrote it",
}

_ABSENT = {
    Reason.FILTERED: "the upstream has it, and the query leaves it out",
    Reason.NOT_READ: "history is not read that far",
    Reason.NOT_YET: "the upstream has it since after the last epoch; run the job",
    Reason.WAITING: "its change waits until the view is finished",
    Reason.DELETED: "the upstream removed it",
    Reason.NOT_THERE: "the upstream does not have it",
    Reason.MISSING: "the view should have it; verify the job",
}


def describe(answer: RowAnswer) -> list[str]:
    """Return the answer, the most important line first."""
    key = json.dumps(list(answer.key), ensure_ascii=False)
    has = "has" if answer.present else "does not have"
    why = {**_PRESENT, **_ABSENT}[answer.reason].format(epoch=answer.epoch)
    lines = [f"the view of {answer.job} {has} {key}: {why}"]
    lines += [f"not met: {condition}" for condition in answer.conditions]
    lines += [f"not checked, which takes Spark: {condition}" for condition in answer.undecided]
    if answer.vnode is not None:
        lines.append(f"its vnode {answer.vnode} has read {answer.rows_read_of_vnode or 0:,} rows")
    if answer.view is not None:
        by = f", requested by {answer.epoch_by}" if answer.epoch_by else ""
        lines.append(f"view: {_commit(answer.view)}{by}")
    if answer.upstream is not None:
        verb = "removed in " if answer.reason is Reason.DELETED else ""
        lines.append(f"upstream: {verb}{_commit(answer.upstream)}")
    if answer.upstream_offset is not None:
        lines.append(f"as of the upstream's offset {answer.upstream_offset}")
    if answer.verified_at is not None:
        lines.append(f"verified equal at epoch {answer.verified_epoch}, {_time(answer.verified_at)}")
    elif answer.present:
        lines.append("not verified since")
    if answer.left_to_spark:
        lines.append(f"which commit of the upstream wrote it takes Spark: {answer.left_to_spark}")
    return [*lines, *answer.notes]


def _commit(found: WrittenRow) -> str:
    when = "" if found.written_at is None else f", {_time(found.written_at)}"
    by = f", by {found.by}" if found.by else ""
    at_most = "" if found.is_certain else " or an earlier one, whose files are gone"
    return f"version {found.version}{at_most} ({found.operation}){when}{by}"


def _time(instant: object) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"
