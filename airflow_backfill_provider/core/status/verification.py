"""
A verification: what it compares, pinned before it begins, and the results of its steps.

A verification compares the view with its query at pinned versions, so later commits do not matter. It compares the
vnodes in steps and records each step's result. After a crash it resumes with the next step.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.keys import EVERYTHING, EncodedPosition, KeyOrder
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.scan.scan import Scan, VnodeRange
from airflow_backfill_provider.core.status.differences import DifferingKey, VnodeDifference

ROWS_PER_STEP = 50_000_000
"""The upstream's rows per step of a verification, unless the number of steps is given."""

MOST_KEYS_KEPT = 1_000
"""The most differing keys that a step records. If there are more, whole vnodes are repaired."""


class ReadVnodes(Frozen):
    """
    Adjacent vnodes that the view has up to the same key.

    :param first: the first vnode.
    :param last: the last vnode.
    :param up_to: the last key that the view has of them, encoded as text; ``None`` if it has all.
    """

    first: int
    last: int
    up_to: EncodedPosition | None


class PinnedVerification(Frozen):
    """
    What a verification compares.

    :param number: the number among the job's verifications, from 1.
    :param epoch: the epoch that is verified.
    :param upstream_version: the upstream's offset that the view is at after this epoch.
    :param others: the offsets of the upstreams beside the one that leads, by their names; none for most jobs.
    :param view_version: the newest version of the view before any later epoch.
    :param view_table_id: the id of the view's Delta table.
    :param read: the vnodes that are read as of the epoch; the view has no rows of others.
    :param by_key: whether rows are grouped by a hash of their keys, because the view does not have the distribution
        key; otherwise by vnode.
    :param steps: the ranges of vnodes that are compared one by one.
    """

    number: int
    job: str
    incarnation: str
    epoch: int
    upstream_version: Offset
    others: Annotated[Mapping[str, Offset], Field(exclude_if=lambda found: not found)] = {}
    view_version: int
    view_table_id: str
    read: tuple[ReadVnodes, ...]
    by_key: bool
    steps: tuple[VnodeRange, ...]
    begun_by: Requester
    begun_at: dt.datetime


class AskedVerification(Frozen):
    """
    A verification that is requested; the next epoch's application carries it out.

    :param number: the number among the job's verifications; one that begins later has a higher number.
    """

    number: int
    job: str
    incarnation: str
    requested_by: str
    requested_at: dt.datetime


class ComparedVnodes(Frozen):
    """
    The result of one step.

    :param first: the first of its vnodes.
    :param last: the last of its vnodes.
    :param expected_rows: rows that the query returns.
    :param found_rows: rows that the view has, without the removed ones.
    :param removed_rows: rows of the view that cannot be compared, because the upstream has removed them since.
    :param differences: the vnodes that differ.
    :param keys: the differing keys in order; only the first ones if there are many.
    :param has_all_keys: whether ``keys`` is complete.
    :param seconds: how long the step took.
    """

    first: int
    last: int
    expected_rows: int
    found_rows: int
    removed_rows: int = 0
    differences: tuple[VnodeDifference, ...] = ()
    keys: tuple[DifferingKey, ...] = ()
    has_all_keys: bool = True
    seconds: float = 0.0
    compared_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Verification:
    """
    A verification with the results so far.

    :param pinned: what it compares.
    :param compared: the results of completed steps, in order of vnodes.
    """

    pinned: PinnedVerification
    compared: tuple[ComparedVnodes, ...] = ()

    @property
    def steps_left(self) -> tuple[VnodeRange, ...]:
        """The steps that are not completed."""
        done = {(step.first, step.last) for step in self.compared}
        return tuple(step for step in self.pinned.steps if step not in done)

    @property
    def finished(self) -> bool:
        """Whether all vnodes are compared."""
        return not self.steps_left

    @property
    def equal(self) -> bool:
        """Whether all vnodes are compared, and none differs."""
        return self.finished and not self.differences

    @property
    def differences(self) -> tuple[VnodeDifference, ...]:
        """The vnodes that differ, among the compared ones."""
        return tuple(difference for step in self.compared for difference in step.differences)

    @property
    def keys(self) -> tuple[DifferingKey, ...]:
        """The recorded keys that differ."""
        return tuple(key for step in self.compared for key in step.keys)

    @property
    def expected_rows(self) -> int:
        """Rows that the query returns in the compared vnodes."""
        return sum(step.expected_rows for step in self.compared)

    @property
    def found_rows(self) -> int:
        """Rows that the view has in the compared vnodes, without the removed ones."""
        return sum(step.found_rows for step in self.compared)

    @property
    def removed_rows(self) -> int:
        """Rows of the view in the compared vnodes that the upstream has removed since."""
        return sum(step.removed_rows for step in self.compared)

    @property
    def verified_at(self) -> dt.datetime:
        """When the newest step was completed; before the first, when the verification began."""
        return max((step.compared_at for step in self.compared), default=self.pinned.begun_at)

    def with_step(self, compared: ComparedVnodes) -> Verification:
        """Return the verification with one more result; the first result of a step is kept."""
        if (compared.first, compared.last) not in self.steps_left:
            return self
        steps = sorted((*self.compared, compared), key=lambda step: step.first)
        return Verification(self.pinned, tuple(steps))

    def repair(self, vnode_count: int, most_keys: int) -> Repair:
        """
        Return the repair that makes the view equal: the differing units, or whole vnodes if there are too many of them.

        Units have the upstream's keys; see :meth:`repair_by_unit` for a view of other units.

        :param vnode_count: the job's number of vnodes; all are repaired if rows were not grouped by vnode.
        :param most_keys: the most keys that one repair can have.
        """
        keys: list[EncodedPosition] = []
        vnodes: set[int] = set()
        for step in self.compared:
            if step.has_all_keys and all(difference.keys for difference in step.differences):
                keys += [found.key for found in step.keys]
            else:
                vnodes.update(difference.vnode for difference in step.differences)
        distinct = tuple(dict.fromkeys(keys))
        if len(distinct) > most_keys:
            distinct = ()
            vnodes = {difference.vnode for difference in self.differences}
        if vnodes and self.pinned.by_key:
            vnodes = set(range(vnode_count))
        return Repair(vnodes=tuple(sorted(vnodes)), keys=distinct)

    def repair_by_unit(self, vnode_count: int, most_units: int) -> Repair:
        """Return :meth:`repair` for a view whose units are not the upstream's rows."""
        found = self.repair(vnode_count, most_units)
        return Repair(vnodes=found.vnodes, units=found.keys)


def steps_of(vnode_count: int, *, rows: int, wanted: int | None = None) -> tuple[VnodeRange, ...]:
    """
    Divide the vnodes into steps.

    :param rows: estimated rows of the upstream.
    :param wanted: the number of steps; by default one per :data:`ROWS_PER_STEP` rows.
    """
    count = min(max(wanted or -(-rows // ROWS_PER_STEP), 1), vnode_count)
    bounds = [vnode_count * number // count for number in range(count + 1)]
    return tuple((first, after - 1) for first, after in itertools.pairwise(bounds))


def read_vnodes(state: BackfillState, scan: Scan, order: KeyOrder, vnodes: frozenset[int]) -> tuple[ReadVnodes, ...]:
    """
    Return the vnodes that are read in a state, and up to which position.

    :param scan: the job's scan.
    :param order: the order of positions in a vnode.
    :param vnodes: the vnodes that the job reads.
    """
    if scan.read(state) == (EVERYTHING,):
        # All rows may be read before any vnode is Completed, because its changes are not applied yet.
        state = replace(state, vnodes=tuple(Completed(None, progress.row_count) for progress in state.vnodes))
    spans: list[ReadVnodes] = []
    for found in _each_read(state, order, vnodes):
        if spans and (spans[-1].last, spans[-1].up_to) == (found.first - 1, found.up_to):
            spans[-1] = spans[-1].model_copy(update={"last": found.last})
        else:
            spans.append(found)
    return tuple(spans)


def _each_read(state: BackfillState, order: KeyOrder, vnodes: frozenset[int]) -> Iterator[ReadVnodes]:
    for vnode in sorted(vnodes):
        match state.vnodes[vnode]:
            case NotStarted():
                continue
            case InProgress(position=position):
                yield ReadVnodes(first=vnode, last=vnode, up_to=order.encode(position))
            case Completed():
                yield ReadVnodes(first=vnode, last=vnode, up_to=None)
