"""Says in words how a view that waits for an approval differs from the one that serves. Values are left out."""

from __future__ import annotations

import json
from collections.abc import Mapping

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.view_difference import (
    ChangedKey,
    ComparedSide,
    RowDifference,
    RowValues,
    ViewDifference,
)


def difference_lines(found: ViewDifference) -> tuple[str, ...]:
    """Return what was compared, and what differs, without keys."""
    return (compared_line(found), *rows_lines(found.rows))


def compared_line(found: ViewDifference) -> str:
    """Return what was compared."""
    sides, what = found.sides, found.subject.kind.words
    if sides.served is None:
        return f"difference {found.number}: {what} ({_side(sides.waiting)}); no view serves yet"
    compared = f"difference {found.number}: {what} ({_side(sides.waiting)}) against the view that serves"
    if sides.at_one_point:
        return f"{compared} (version {sides.served.view_version})"
    return f"{compared} ({_side(sides.served)}); the changes between these offsets count as differences, too"


def rows_lines(rows: RowDifference) -> tuple[str, ...]:
    """Return what differs: rows, and columns."""
    changes = f"{rows.added:,} added, {rows.removed:,} removed, {rows.changed:,} changed"
    lines = [f"rows: {rows.rows_before:,} now, {rows.rows_after:,} then; {changes}"]
    if rows.columns:
        counts = ", ".join(f"{name} in {count:,}" for name, count in rows.columns.items())
        lines.append(f"changed columns: {counts}")
    named = {
        "added": rows.columns_added,
        "removed": rows.columns_removed,
        "of another type, not compared": rows.columns_retyped,
    }
    lines += [f"columns {how}: {', '.join(names)}" for how, names in named.items() if names]
    if not rows.has_key:
        lines.append("the views have no common key, so a row that changed counts as removed and as added")
    if not rows.differs:
        lines.append("nothing differs")
    return tuple(lines)


def key_line(found: ChangedKey) -> str:
    """Return a sampled key with the columns that differ."""
    columns = f" in {', '.join(found.columns)}" if found.columns else ""
    return f"{found.kind}: {json.dumps(list(found.key), ensure_ascii=False)}{columns}"


def value_lines(found: RowValues) -> tuple[str, ...]:
    """Return the rows of a key, for the terminal only."""
    sides = {"now": found.before, "then": found.after}
    return tuple(f"{side}: {_row(row)}" for side, rows in sides.items() for row in rows)


def left_out(rows: RowDifference) -> int:
    """Return how many units that differ are not in the sample."""
    return max(rows.added + rows.removed + rows.changed - len(rows.sample), 0) if rows.has_key else 0


def _side(side: ComparedSide) -> str:
    version = "" if side.view_version is None else f"version {side.view_version}, "
    return f"{version}{_upstreams(side.upstreams)}"


def _upstreams(offsets: Mapping[str, Offset]) -> str:
    if len(offsets) == 1:
        return f"upstream at {next(iter(offsets.values()))}"
    return "upstreams at " + ", ".join(f"{name} {offset}" for name, offset in offsets.items())


def _row(row: Mapping[str, str | None]) -> str:
    return json.dumps(dict(row), ensure_ascii=False)


def question(found: ViewDifference) -> str:
    """Return the question of whoever may approve."""
    rows = found.rows
    changes = f"{rows.added:,} added, {rows.removed:,} removed, {rows.changed:,} changed"
    return f"Let {found.subject.kind.words} of {found.job} go live, {text.rows(rows.rows_after)} ({changes})?"
