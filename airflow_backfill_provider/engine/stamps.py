"""What a commit of a stamped table says of itself, and what that tells whoever reads the log."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.errors import (
    BackfillError,
)
from airflow_backfill_provider.core.table_version import TableVersion
from airflow_backfill_provider.lake.delta_log import Commit, stamp_of
from airflow_backfill_provider.lake.view_identity import (
    ViewIdentity,
)

CHANGES = "changes"
"""The part of an epoch that merges its changes into the view."""


GIVEN_UP = "given_up"
"""The event of a commit that stands in the place of a part of an epoch, which is given up."""


CHANGES_REMOVAL = "changes-removal"
"""The part of an epoch that removes changed keys from a view that nobody reads yet; :data:`CHANGES` then appends."""


REPAIR_REMOVAL = "repair-removal"
"""The part of an epoch that removes what is repaired from the view."""


REPAIR = "repair"
"""The part of an epoch that writes what is repaired anew."""


OF_CHANGES = (CHANGES_REMOVAL, CHANGES, REPAIR_REMOVAL, REPAIR)
"""All parts of an epoch that write to the view, but those of its chunk."""


_HARMLESS_METADATA = frozenset(
    {"SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "CHANGE COLUMN", "CLUSTER BY", "ADD CONSTRAINT", "DROP CONSTRAINT"}
)
"""A constraint that every row meets may stay; a row that does not is refused by the write."""


@dataclass(frozen=True, slots=True)
class TableKind:
    """
    What a table is to its job, for refusals of what somebody else did to it.

    :param name: what it is called.
    :param error: the class of the refusal.
    :param remedy: what helps against foreign rows.
    """

    name: str
    error: type[BackfillError]
    remedy: str


def snapshot_part(part: int) -> str:
    """Return the name of the write of a part of the chunk."""
    return f"snapshot/{part}"


def transaction_id(identity: ViewIdentity, part: str) -> str:
    """Return the transaction id of a part of the job's epochs."""
    return f"airflow-backfill/{identity.job}/{identity.incarnation}/{part}"


def creation_id(identity: ViewIdentity) -> str:
    """Return the transaction id of making the table, which all incarnations of a job share."""
    return f"airflow-backfill/{identity.job}/creation"


def creates(commit: Commit, identity: ViewIdentity) -> bool:
    """Tell whether a commit made the incarnation's table."""
    stamp = stamp_of(commit)
    return stamp.get("event") == "create" and stamp.get("incarnation") == identity.incarnation


def is_ours(commit: Commit, identity: ViewIdentity, barrier: Barrier, since: TableVersion | None) -> bool:
    """
    Tell whether a commit is one that may lie after what the previous epoch left.

    What earlier epochs wrote lies before that. Found after it, it comes from an older copy; only where nobody knows
    what the previous epoch left, it counts.
    """
    stamp = stamp_of(commit)
    if stamp.get("incarnation") != identity.incarnation:
        return False
    if stamp.get("digest") == barrier.digest:
        return True
    return since is None and (creates(commit, identity) or is_of_earlier_epoch(commit, identity, barrier))


def is_harmless(commit: Commit) -> bool:
    """Tell whether a commit left the rows, and what is written of them, as they were."""
    return not commit.changes_data and (not commit.replaces_metadata or commit.operation in _HARMLESS_METADATA)


def is_of_earlier_epoch(commit: Commit, identity: ViewIdentity, barrier: Barrier) -> bool:
    """Tell whether an earlier epoch wrote a commit: it was done before this one began, so nothing of this is older."""
    stamp = stamp_of(commit)
    if stamp.get("event") not in {"epoch", GIVEN_UP} or stamp.get("incarnation") != identity.incarnation:
        return False
    return int(str(stamp["epoch"])) < barrier.epoch


def stamp_for(barrier: Barrier, part: str, event: str = "epoch") -> dict[str, object]:
    """Return what the commit of a part says of itself; the watermark only once the view is complete."""
    completes = barrier.completes and event == "epoch"
    watermark = {"watermark": barrier.upstream.watermark.isoformat()} if completes else {}
    return {
        "event": event,
        "job": barrier.job,
        "incarnation": barrier.incarnation,
        "epoch": barrier.epoch,
        "part": part,
        "digest": barrier.digest,
        **watermark,
    }
