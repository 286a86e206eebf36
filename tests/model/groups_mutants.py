"""
What is played of views of groups: every kind, and schemes that look right and are not.

``python -m tests.model.groups_mutants [histories] [seed]`` prints how many histories went wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from tests.model import groups_queries as queries
from tests.model.groups_job import Protocol, Strategy
from tests.model.groups_queries import GroupQuery
from tests.model.groups_rows import last_preimage
from tests.model.groups_runs import GroupsRun
from tests.model.histories import wrong
from tests.model.truth import InvariantError

BY_UNITS = Strategy("units", "every_epoch")
ON_FINISH = Strategy("units", "on_finish")
MOVING = Strategy("units", "moving")
WITHIN_UNITS = Strategy("within units", "every_epoch")
BY_KEYS = Strategy("keys", "every_epoch")
WHOLE = Strategy("whole", "on_finish")
BY_RUNS = Strategy("keys", "on_finish")
"""Runs of V0's rows in no order of units; only as a mutant."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A query under a strategy."""

    query: GroupQuery
    strategy: Strategy

    def __str__(self) -> str:
        return f"{self.query.name}, {self.strategy}"

    def fault(self, seed: int | str, protocol: Protocol | None = None) -> str | None:
        """Play one history; return what broke."""
        try:
            GroupsRun(seed, self.query, self.strategy, protocol).play()
        except InvariantError as error:
            return str(error)
        return None


def _kinds(*strategies: Strategy, of: Iterable[GroupQuery] = tuple(queries.ALL)) -> tuple[Kind, ...]:
    return tuple(Kind(query, strategy) for strategy in strategies for query in of)


_WITH_UNITS = tuple(query for query in queries.ALL if query is not queries.GLOBAL)
KINDS = (
    *_kinds(BY_UNITS, ON_FINISH, MOVING, of=_WITH_UNITS),  # a chunk of the one unit of a global query is everything
    *_kinds(WITHIN_UNITS, BY_KEYS, WHOLE),
)
"""Every kind that has to be right."""

_TOTALS, _TOTALS_OF_TWO = queries.TOTALS, queries.TOTALS_OF_TWO
_PERCENTILE, _PERCENTILE_OF_TWO = queries.PERCENTILE, queries.PERCENTILE_OF_TWO
_LATEST = queries.LATEST
_BOTH = (_TOTALS_OF_TWO, _PERCENTILE_OF_TWO)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A protocol that lacks a rule, and the kinds in which that shows."""

    protocol: Protocol
    kinds: tuple[Kind, ...]


MUTANTS = {
    # The frame: rows, images, positions.
    "the chunk as of the window's start": Mutant(
        Protocol(chunk_at="start"), _kinds(BY_UNITS, BY_KEYS, of=(_TOTALS, _LATEST))
    ),
    "changes by the new position": Mutant(
        Protocol(filter_by="after"), (*_kinds(BY_UNITS, of=_BOTH), *_kinds(BY_KEYS, of=(_TOTALS, _TOTALS_OF_TWO)))
    ),
    "the publishing epoch's changes by the old position": Mutant(
        Protocol(filter_by="before"), _kinds(ON_FINISH, of=_BOTH)
    ),
    "the old image passes if the new one does": Mutant(
        Protocol(image_passes="by the new unit"), _kinds(BY_UNITS, of=_BOTH)
    ),
    "a row that comes from an unread unit is dropped": Mutant(
        Protocol(image_passes="if the old one does"), _kinds(BY_UNITS, of=_BOTH)
    ),
    "a row that goes to an unread unit is kept": Mutant(
        Protocol(image_passes="if the new one does"), _kinds(BY_UNITS, of=_BOTH)
    ),
    "the old image is that of the last change": Mutant(
        Protocol(old_image=last_preimage), _kinds(WHOLE, of=(_TOTALS, _TOTALS_OF_TWO))
    ),
    "net per key without the vnode": Mutant(Protocol(net_by="key"), _kinds(BY_UNITS, ON_FINISH, of=_BOTH)),
    "only read units are arranged": Mutant(Protocol(arranged="read units"), _kinds(BY_UNITS, of=_BOTH)),
    "waiting changes are those after the last window": Mutant(
        Protocol(waiting_after="last window"), _kinds(ON_FINISH, MOVING, WHOLE, of=_BOTH)
    ),
    "netted before they are filtered by offsets": Mutant(Protocol(filtered="after netting"), _kinds(MOVING, of=_BOTH)),
    "the last chunk ends where it was planned": Mutant(
        Protocol(last_chunk="bounded"), _kinds(BY_UNITS, BY_KEYS, of=_BOTH)
    ),
    "a chunk that ends inside a unit is appended": Mutant(
        Protocol(cut_chunk="appended alone"),
        (
            *_kinds(WITHIN_UNITS, of=(_TOTALS, _PERCENTILE, queries.TOP_TWO)),
            Kind(queries.TOP_TWO, Strategy("within units", "on_finish")),
        ),
    ),
    "each run of rows is sliced alone": Mutant(
        Protocol(cut_chunk="appended alone"), _kinds(BY_RUNS, of=(_PERCENTILE, _LATEST))
    ),
    "the number of parts is not pinned": Mutant(Protocol(parts="not pinned"), _kinds(BY_UNITS, of=_BOTH)),
    "the position of a unit of nulls is none": Mutant(
        Protocol(null_position="no position"), _kinds(BY_UNITS, ON_FINISH, of=_BOTH)
    ),
    # Units.
    "only new images touch a unit": Mutant(
        Protocol(touched_by="new images"), _kinds(BY_UNITS, WHOLE, of=(*_BOTH, _LATEST))
    ),
    "units are matched by equality": Mutant(
        Protocol(null_safe="no column"), _kinds(BY_UNITS, WHOLE, of=(_TOTALS, queries.DISTINCT, _LATEST))
    ),
    "only the first column of a unit may be null": Mutant(
        Protocol(null_safe="first column"), _kinds(BY_UNITS, WHOLE, of=(*_BOTH, queries.DISTINCT))
    ),
    "a unit is matched by any of its columns": Mutant(
        Protocol(matched_by="any column"), _kinds(BY_UNITS, WHOLE, of=_BOTH)
    ),
    "a unit is matched by each of its columns apart": Mutant(
        Protocol(matched_by="each column apart"), _kinds(BY_UNITS, WHOLE, of=_BOTH)
    ),
    "a slice of the chunk and the changed rows alone": Mutant(
        Protocol(slice_over="chunk"), _kinds(BY_KEYS, WHOLE, of=(_PERCENTILE, _LATEST, queries.TOP_TWO))
    ),
    # Folds.
    "a group is gone if its sum is zero": Mutant(Protocol(gone_if="sum is zero"), _kinds(WHOLE, of=(_TOTALS,))),
    "extremes are never read again": Mutant(
        Protocol(extremes="kept"), _kinds(WHOLE, BY_KEYS, of=(_TOTALS, queries.GLOBAL))
    ),
    "HAVING as a filter on stored groups": Mutant(
        Protocol(), _kinds(BY_UNITS, WHOLE, of=(queries.HAVING_BY_STORED_GROUPS,))
    ),
    "hidden state is read from the newest version": Mutant(
        Protocol(hidden_state="newest"), _kinds(BY_UNITS, BY_KEYS, of=(_TOTALS, _TOTALS_OF_TWO))
    ),
    "increments instead of absolute values": Mutant(
        Protocol(values="increments"), _kinds(BY_UNITS, BY_KEYS, of=(_TOTALS, _TOTALS_OF_TWO))
    ),
    # Writes.
    "a merge without transaction id": Mutant(
        Protocol(merge_has_txn=False), _kinds(BY_UNITS, WHOLE, of=(*_BOTH, _LATEST))
    ),
    "the state is not fenced": Mutant(Protocol(state_fenced=False), _kinds(BY_UNITS, WHOLE, of=_BOTH)),
    "a removal without an effect leaves no transaction": Mutant(
        Protocol(empty_removal_has_txn=False), _kinds(BY_UNITS, BY_KEYS, of=_BOTH)
    ),
    "a merge does not notice a compaction": Mutant(Protocol(files_checked=False), _kinds(BY_UNITS, WHOLE, of=_BOTH)),
    "a compaction drops tombstones": Mutant(Protocol(compacted="without tombstones"), _kinds(BY_UNITS, of=_BOTH)),
    "a compaction of base and changes keeps the newest entries alone": Mutant(
        Protocol(compacted="newest alone, with the base"), _kinds(ON_FINISH, of=(_TOTALS, _TOTALS_OF_TWO))
    ),
    "a compaction of base and changes stamps them anew": Mutant(
        Protocol(compacted="stamped anew, with the base"), _kinds(ON_FINISH, of=_BOTH)
    ),
    # Repair.
    "a repair is a commit of its own": Mutant(Protocol(repair="second commit"), _kinds(BY_UNITS, WHOLE, of=_BOTH)),
    "the chunk has the repaired units, too": Mutant(Protocol(repair="beside the chunk"), _kinds(BY_UNITS, of=_BOTH)),
    "a repair goes on from the damaged state": Mutant(
        Protocol(repair="adds to the damage"), _kinds(BY_UNITS, WHOLE, of=(_TOTALS, _TOTALS_OF_TWO))
    ),
    "a repair removes nothing": Mutant(Protocol(repair="inserts only"), _kinds(BY_UNITS, WHOLE, of=_BOTH)),
    "a repair writes rows that are not read yet": Mutant(
        Protocol(repair="of unread rows, too"), _kinds(BY_UNITS, BY_KEYS, of=_BOTH)
    ),
    # Rebuild, and a view over the view.
    "a successor starts from the newest version": Mutant(
        Protocol(successor_base="newest"), _kinds(BY_UNITS, WHOLE, of=_BOTH)
    ),
    "a handover in two commits": Mutant(Protocol(hand_over="removal, then rows"), _kinds(BY_UNITS, WHOLE, of=_BOTH)),
    "a handover to an older view": Mutant(Protocol(hand_over_when="finished"), _kinds(BY_UNITS, WHOLE, of=_BOTH)),
    "a handover to an unfinished view": Mutant(
        Protocol(hand_over_when="as new"), _kinds(BY_UNITS, ON_FINISH, of=_BOTH)
    ),
    "a handover does not end the former transactions": Mutant(
        Protocol(hand_over_fences=False), _kinds(BY_UNITS, WHOLE, of=_BOTH)
    ),
    "a view over the view reads its newest version": Mutant(
        Protocol(downstream_reads="newest"), _kinds(BY_UNITS, WHOLE, of=_BOTH)
    ),
}

HARMLESS = {
    # The transaction id protects the state, not the way in which it is written: if each epoch is one merge.
    "hidden state is read from the newest version, in one merge": Mutant(
        Protocol(hidden_state="newest", hidden_commits="one"), _kinds(BY_UNITS, BY_KEYS, of=(_TOTALS, _TOTALS_OF_TWO))
    ),
    "increments instead of absolute values, in one merge": Mutant(
        Protocol(values="increments", hidden_commits="one"), _kinds(BY_UNITS, BY_KEYS, of=(_TOTALS, _TOTALS_OF_TWO))
    ),
    # It touches more units, and a slice writes them as they are.
    "changes by the new position, for slices whose chunk joins the changes": Mutant(
        Protocol(filter_by="after"), _kinds(BY_KEYS, WITHIN_UNITS, of=(_PERCENTILE_OF_TWO, _LATEST))
    ),
    # Entries have the number of their epoch: the same ones once more, or later, change nothing.
    "the arrangement is a plain append": Mutant(
        Protocol(arrangement_has_txn=False), _kinds(BY_UNITS, ON_FINISH, MOVING, of=_BOTH)
    ),
    # A chunk at V0 reads the base, and every other one the newest entries.
    "a compaction of changes keeps the newest entries alone": Mutant(
        Protocol(compacted="newest alone"), _kinds(BY_UNITS, ON_FINISH, MOVING, of=_BOTH)
    ),
}
"""Protocols that look weaker and are right all the same. They say what a rule is for, and what it is not for."""


def main(histories: int = 100, seed: int = 0) -> None:
    """Print how many histories go wrong: of the protocol in every kind, and of each mutant in its kinds."""
    seeds = range(seed, seed + histories)
    for kind in KINDS:
        print(f"{'':70} {kind!s:36} {wrong(kind, seeds):6,} wrong of {histories:,}", flush=True)
    for name, mutant in (*MUTANTS.items(), *HARMLESS.items()):
        for kind in mutant.kinds:
            print(f"{name:70} {kind!s:36} {wrong(kind, seeds, mutant.protocol):6,} wrong of {histories:,}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
