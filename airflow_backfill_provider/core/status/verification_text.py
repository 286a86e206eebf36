"""Formats the results of verifications, one line each."""

from __future__ import annotations

import datetime as dt
import json

from airflow_backfill_provider.core.durations import duration
from airflow_backfill_provider.core.status.differences import DifferenceKind, DifferingKey
from airflow_backfill_provider.core.status.verified_state import VerifiedState


def verified_line(verified: VerifiedState | None, now: dt.datetime) -> str:
    """Return when a view was verified, and the result, such as ``verified at epoch 41, 3 h 5 min ago``."""
    if verified is None:
        return "never verified"
    age = duration(max((now - verified.verified_at).total_seconds(), 0.0))
    if verified.equal:
        return f"verified at epoch {verified.epoch}, {age} ago"
    return f"differs from its query at epoch {verified.epoch}, {age} ago: {differing(verified)}"


def differing(verified: VerifiedState) -> str:
    """Return how many keys of a view differ, and in which vnodes."""
    return f"{verified.differing_keys:,} keys differ, in the vnodes {verified.vnodes}"


def compared_line(job: str, verified: VerifiedState) -> str:
    """Return what was compared, and the result."""
    kinds = ", ".join(f"{verified.keys[kind]:,} {kind}" for kind in DifferenceKind)
    return (
        f"{job} as of epoch {verified.epoch}, upstream offset {verified.upstream_version}: "
        f"{verified.expected_rows:,} {'row' if verified.expected_rows == 1 else 'rows'} expected, {kinds}"
        f"{_removed(verified.removed_rows)}"
    )


def _removed(rows: int) -> str:
    match rows:
        case 0:
            return ""
        case 1:
            return "; 1 row whose source record is gone, not compared"
        case _:
            return f"; {rows:,} rows whose source records are gone, not compared"


def key_line(found: DifferingKey) -> str:
    """Return a differing key with its vnode, and the columns that differ."""
    columns = f" in {', '.join(found.columns)}" if found.columns else ""
    return f"{found.kind}: {json.dumps(list(found.key), ensure_ascii=False)} of vnode {found.vnode}{columns}"
