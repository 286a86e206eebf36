"""
Advice for damaged control tables.

A rebuild reads the settings and the barrier log, so it cannot replace them. It does replace the state of the vnodes.
Verifications and differences are only history. (Records of applications need no advice: an unreadable one is ignored
and overwritten.)
"""

from __future__ import annotations

VERIFICATIONS = "verifications"
DIFFERENCES = "differences"
VNODE_STATE = "vnode_state"

_RESTORE_JOB = (
    "restore the job's control tables from an up-to-date copy, or delete them and the view, and create the job again"
)
_RESTORE_STATE = "restore it from an up-to-date copy, or rebuild the job"
_DELETE_VERIFICATIONS = (
    "delete this table's folder and verify the job again; it contains only the history of verifications, which epochs "
    "and view do not need"
)

_DELETE_DIFFERENCES = (
    "delete this table's folder and run airflow-backfill diff again; it contains only differences that were shown, "
    "which epochs and view do not need"
)


def what_to_do(table: str) -> str:
    """
    Return what to do if a control table is damaged.

    :param table: its location.
    """
    name = table.rstrip("/").rpartition("/")[2]
    if name == VERIFICATIONS:
        return _DELETE_VERIFICATIONS
    if name == DIFFERENCES:
        return _DELETE_DIFFERENCES
    return _RESTORE_STATE if name.startswith(VNODE_STATE) else _RESTORE_JOB
