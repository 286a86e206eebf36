"""The stamps in the commits of a table, and how to read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.errors import (
    BackfillError,
)
from airflow_backfill_provider.core.scan.table_version import TableVersion
from airflow_backfill_provider.lake.log.added_files import AppendTransaction
from airflow_backfill_provider.lake.log.delta_log import Commit, stamp_of
from airflow_backfill_provider.lake.tables.view_identity import (
    ViewIdentity,
)

CHANGES = "changes"
"""The part of an epoch that merges its changes into the view."""


GIVEN_UP = "given_up"
"""The event of the commit that gives up a part."""


FORGOTTEN = "forget"
"""The event of a commit that erases former rows, between epochs."""


CHANGES_REMOVAL = "changes-removal"
"""The part of an epoch that removes changed keys from an unfinished view; :data:`CHANGES` then appends."""


REPAIR = "repair"
"""The part of an epoch that merges its changes and the repaired rows into the view, in place of :data:`CHANGES`."""


ADOPTION = "adoption"
"""The write of the rows of a table that something else made, when it is copied to become the view."""


OF_CHANGES = (CHANGES_REMOVAL, CHANGES, REPAIR)
"""All parts of an epoch that write to the view, except those of its chunk."""


_HARMLESS_METADATA = frozenset(
    {"SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "CHANGE COLUMN", "CLUSTER BY", "ADD CONSTRAINT", "DROP CONSTRAINT"}
)
"""Operations of foreign writers that are accepted. A constraint refuses only writes of rows that violate it."""


@dataclass(frozen=True, slots=True)
class TableKind:
    """
    The kind of a job's table, for errors about foreign writes to it.

    :param name: the table's name.
    :param error: the class of the error.
    :param remedy: what the user can do about a foreign write.
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
    """Return the transaction id of creating the table, which all incarnations of a job share."""
    return f"airflow-backfill/{identity.job}/creation"


def creates(commit: Commit, identity: ViewIdentity) -> bool:
    """Return whether a commit created the incarnation's table."""
    stamp = stamp_of(commit)
    return stamp.get("event") == "create" and stamp.get("incarnation") == identity.incarnation


def is_ours(commit: Commit, identity: ViewIdentity, barrier: Barrier, since: TableVersion | None) -> bool:
    """
    Return whether a commit is the job's own and may lie after the previous epoch's version.

    Commits of earlier epochs lie at or before that version. After it, they come from an older copy of the table, and
    are accepted only if the previous epoch's version is unknown. A commit that erases former rows may lie anywhere.
    """
    stamp = stamp_of(commit)
    if stamp.get("incarnation") != identity.incarnation:
        return False
    if stamp.get("digest") == barrier.digest or stamp.get("event") == FORGOTTEN:
        return True
    return since is None and (creates(commit, identity) or is_of_earlier_epoch(commit, identity, barrier))


def is_harmless(commit: Commit) -> bool:
    """Return whether a commit changed neither rows nor the columns that are written."""
    return not commit.changes_data and (not commit.replaces_metadata or commit.operation in _HARMLESS_METADATA)


def is_of_earlier_epoch(commit: Commit, identity: ViewIdentity, barrier: Barrier) -> bool:
    """Return whether a commit is of an earlier epoch; all commits of this epoch are newer then."""
    stamp = stamp_of(commit)
    if stamp.get("event") not in {"epoch", GIVEN_UP} or stamp.get("incarnation") != identity.incarnation:
        return False
    return int(str(stamp["epoch"])) < barrier.epoch


def stamp_for(barrier: Barrier, part: str, event: str = "epoch") -> dict[str, object]:
    """Return the stamp for the commit of a part; it has the watermark only once the view is complete."""
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


def epoch_transaction(
    identity: ViewIdentity, part: str, barrier: Barrier, facts: Mapping[str, object] | None = None
) -> AppendTransaction:
    """
    Return the transaction and the stamp of a part's commit.

    :param facts: more fields of the stamp.
    """
    stamp = json.dumps({**(facts or {}), **stamp_for(barrier, part)})
    return AppendTransaction(transaction_id(identity, part), barrier.epoch, stamp)
