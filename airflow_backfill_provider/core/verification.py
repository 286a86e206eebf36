"""
A verification: what it compares, pinned before it begins, and what its steps found.

It compares the view with its query at one pair of versions, whatever is committed meanwhile, and goes through the
vnodes in steps, each recorded when it is done. One that died is resumed after the steps that it has done.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_backfill_provider.core.barrier import Repair
from airflow_backfill_provider.core.differences import DifferingKey, VnodeDifference
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.keys import EncodedPosition, KeyOrder
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.core.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.core.scan import VnodeRange

ROWS_PER_STEP = 50_000_000
"""Rows of the upstream for which a verification makes one step, unless it is told how many to make."""

MOST_KEYS_KEPT = 1_000
"""Differing keys that a step records at most; beyond, vnodes say what to repair."""


class ReadVnodes(Frozen):
    """
    Neighbouring vnodes of which the view has the same share.

    :param first: the first of them.
    :param last: the last of them.
    :param up_to: the key up to which it has their rows, encoded as text; ``None`` if it has them all.
    """

    first: int
    last: int
    up_to: EncodedPosition | None


class PinnedVerification(Frozen):
    """
    What a verification compares.

    :param number: of the job's verifications, from 1.
    :param epoch: the epoch whose commit is verified.
    :param upstream_version: the version that this epoch left the view at.
    :param view_version: the view's newest version that no later epoch wrote to.
    :param view_table_id: the view's Delta table.
    :param read: the vnodes that were read as of the epoch; of others the view has no rows.
    :param by_key: whether rows are taken together by a hash of their keys, because the view does not carry the
        distribution key; otherwise by vnode.
    :param steps: the vnodes, divided; each is compared by itself.
    """

    number: int
    job: str
    incarnation: str
    epoch: int
    upstream_version: Offset
    view_version: int
    view_table_id: str
    read: tuple[ReadVnodes, ...]
    by_key: bool
    steps: tuple[VnodeRange, ...]
    begun_by: Requester
    begun_at: dt.datetime


class AskedVerification(Frozen):
    """
    A verification that somebody asked for, who cannot carry it out: whoever runs an epoch next does.

    :param number: in the order of the job's verifications; one that begins later has a higher number.
    """

    number: int
    job: str
    incarnation: str
    requested_by: str
    requested_at: dt.datetime


class ComparedVnodes(Frozen):
    """
    What one step found.

    :param first: the first of its vnodes.
    :param last: the last of them.
    :param expected_rows: rows that the query gives.
    :param found_rows: rows that the view has.
    :param differences: the vnodes that differ.
    :param keys: keys that differ, in order; the first of them if they are many.
    :param has_all_keys: whether these are all.
    :param seconds: how long it took.
    """

    first: int
    last: int
    expected_rows: int
    found_rows: int
    differences: tuple[VnodeDifference, ...] = ()
    keys: tuple[DifferingKey, ...] = ()
    has_all_keys: bool = True
    seconds: float = 0.0
    compared_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Verification:
    """
    A verification as far as it got.

    :param pinned: what it compares.
    :param compared: the steps that are done, in the order of their vnodes.
    """

    pinned: PinnedVerification
    compared: tuple[ComparedVnodes, ...] = ()

    @property
    def steps_left(self) -> tuple[VnodeRange, ...]:
        """The steps that are not done."""
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
        """The vnodes that differ, of those that are compared."""
        return tuple(difference for step in self.compared for difference in step.differences)

    @property
    def keys(self) -> tuple[DifferingKey, ...]:
        """The keys that differ, as far as they are kept."""
        return tuple(key for step in self.compared for key in step.keys)

    @property
    def expected_rows(self) -> int:
        """Rows that the query gives, of the vnodes that are compared."""
        return sum(step.expected_rows for step in self.compared)

    @property
    def found_rows(self) -> int:
        """Rows that the view has, of the vnodes that are compared."""
        return sum(step.found_rows for step in self.compared)

    @property
    def verified_at(self) -> dt.datetime:
        """When the newest step was done; when it began, if none is."""
        return max((step.compared_at for step in self.compared), default=self.pinned.begun_at)

    def with_step(self, compared: ComparedVnodes) -> Verification:
        """Return it with one more step done; the first result of a step stays."""
        if (compared.first, compared.last) not in self.steps_left:
            return self
        steps = sorted((*self.compared, compared), key=lambda step: step.first)
        return Verification(self.pinned, tuple(steps))

    def repair(self, vnode_count: int, most_keys: int) -> Repair:
        """
        Return what has to be written anew for the view to be equal: differing keys, or vnodes where they are too many.

        :param vnode_count: vnodes of the job; all are chosen where rows cannot be told by vnode.
        :param most_keys: keys that one repair can have.
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


def steps_of(vnode_count: int, *, rows: int, wanted: int | None = None) -> tuple[VnodeRange, ...]:
    """
    Divide the vnodes into steps.

    :param rows: rows of the upstream, about.
    :param wanted: how many steps to make; by default one for every :data:`ROWS_PER_STEP`.
    """
    count = min(max(wanted or -(-rows // ROWS_PER_STEP), 1), vnode_count)
    bounds = [vnode_count * number // count for number in range(count + 1)]
    return tuple((first, after - 1) for first, after in itertools.pairwise(bounds))


def read_vnodes(state: BackfillState, order: KeyOrder, vnodes: frozenset[int]) -> tuple[ReadVnodes, ...]:
    """
    Return which vnodes a state says are read, and how far.

    :param order: the key's order.
    :param vnodes: those that the job is about.
    """
    runs: list[ReadVnodes] = []
    for found in _each_read(state, order, vnodes):
        if runs and (runs[-1].last, runs[-1].up_to) == (found.first - 1, found.up_to):
            runs[-1] = runs[-1].model_copy(update={"last": found.last})
        else:
            runs.append(found)
    return tuple(runs)


def _each_read(state: BackfillState, order: KeyOrder, vnodes: frozenset[int]) -> Iterator[ReadVnodes]:
    for vnode in sorted(vnodes):
        match state.vnodes[vnode]:
            case NotStarted():
                continue
            case InProgress(position=position):
                yield ReadVnodes(first=vnode, last=vnode, up_to=order.encode(position))
            case Completed():
                yield ReadVnodes(first=vnode, last=vnode, up_to=None)
