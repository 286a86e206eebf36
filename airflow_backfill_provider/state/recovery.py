"""
What to do about a control table that is damaged: it depends on what the table is for.

Settings and barrier log are the truth about a job, and a rebuild reads both of them. The state of the vnodes is
replaced by a rebuild. Verifications are history, and nothing waits for them. (Records of applications need nothing: one
that cannot be read means that nothing is known, and is overwritten.)
"""

from __future__ import annotations

VERIFICATIONS = "verifications"
VNODE_STATE = "vnode_state"

_OF_THE_JOB = (
    "restore the job's control tables from a copy of how they were last, or delete them and the view, and create the "
    "job anew"
)
_OF_THE_STATE = "restore it from a copy of how it was last, or rebuild the job"
_OF_THE_VERIFICATIONS = (
    "delete this table's folder, which holds nothing but the history of verifications, and verify the job again; its "
    "epochs and its view do not need it"
)


def what_to_do(table: str) -> str:
    """
    Return what helps if a control table is damaged.

    :param table: its location.
    """
    name = table.rstrip("/").rpartition("/")[2]
    if name == VERIFICATIONS:
        return _OF_THE_VERIFICATIONS
    return _OF_THE_STATE if name.startswith(VNODE_STATE) else _OF_THE_JOB
