"""What commits of a Delta log say of the rows that they wrote: who wrote them, when, and whether they copied some."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from airflow_backfill_provider.core.status.row_answer import WrittenRow
from airflow_backfill_provider.lake.log.delta_log import DeltaLog, changes_rows, stamp_of

Action = Mapping[str, Mapping[str, Any]]

_COPIED = ("numTargetRowsCopied", "numCopiedRows", "num_target_rows_copied", "num_copied_rows")
"""The metrics of a commit with the number of rows that it only copied, of Delta's and of deltalake's."""


def files_of(
    actions: Iterable[Action], kind: str, wanted: Callable[[str, Mapping[str, Any]], bool] | None = None
) -> list[str]:
    """
    Return the paths of a commit's entries of a kind: ``add``, ``remove`` or ``cdc``.

    :param wanted: chooses among them.
    """
    found = (action[kind] for action in actions if kind in action)
    return [unquote(str(entry["path"])) for entry in found if wanted is None or wanted(kind, entry)]


def copies_rows(actions: Iterable[Action]) -> bool:
    """Return whether a commit may have copied rows: it replaced files, and does not say that it copied none."""
    actions = list(actions)
    added, removed = set(files_of(actions, "add")), set(files_of(actions, "remove"))
    if not removed - added:
        return False
    if not any(changes_rows(kind, action[kind]) for action in actions for kind in ("add", "remove") if kind in action):
        return True
    info = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    metrics = info.get("operationMetrics") or {}
    counts = [str(metrics[name]) for name in _COPIED if name in metrics]
    return not counts or any(count != "0" for count in counts)


def commit_facts(log: DeltaLog, version: int, *, is_certain: bool) -> WrittenRow:
    """
    Return what a commit says of itself.

    :param is_certain: whether it wrote the row; otherwise the row is at most as new as the commit.
    """
    commit = log.commit(version)
    actions = log.actions(version) or []
    info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    who = next((str(info[name]) for name in ("userName", "userId") if info.get(name)), "")
    return WrittenRow(
        version=version,
        written_at=None if commit is None else commit.timestamp,
        operation="" if commit is None else commit.operation,
        by=who or str(info.get("engineInfo") or ""),
        is_certain=is_certain,
        stamp=json.dumps(stamp_of(commit)) if commit is not None and stamp_of(commit) else "",
    )
