"""
One attempt of an epoch, as a generator: it stops before each commit, so that others can run beside it step by step.

An attempt that is never asked to go on has died. One that is asked later is a zombie. An epoch appends to the
arrangement, changes the view, and appends its chunk; then it commits the job's state. Once the view is finished, one
merge makes all of its changes, repairs included (I7).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from tests.model.groups_job import Job
from tests.model.groups_queries import State, Stored, Unit
from tests.model.groups_rows import Sale
from tests.model.groups_scan import READ, Barrier
from tests.model.groups_tables import R, Staged, Table

Attempt = Iterator[str]
"""It yields the name of the point that it stands at."""


def attempt(job: Job, barrier: Barrier, parts: Collection[int]) -> Attempt:
    """Run an epoch: all of its parts, in an order of its own, and then its commit."""
    view = job.view
    for part in parts:
        yield from read_chunk_part(job, barrier, part)
    # The rows of this version are the epoch's: nothing else may have changed any since.
    version = view.version
    yield "before the state"
    if job.epoch < barrier.epoch or not job.protocol.state_fenced:
        job.epoch, job.since, job.committed_to = barrier.epoch, version, barrier.end
        job.positions = barrier.after
        job.is_finished = barrier.publishes and barrier.is_complete


def read_chunk_part(job: Job, barrier: Barrier, part: int) -> Attempt:
    """Run one part of an epoch: whole vnodes, each write under a transaction of its own."""
    vnodes = {vnode for vnode in range(job.scan.vnodes) if vnode % barrier.parts == part}
    job.check(barrier, vnodes)
    if barrier.is_arranged:
        entries = [entry for entry in job.entries(barrier) if entry.vnode in vnodes]
        table, name = job.arrangement, job.part("arrangement", part)
        has_transaction = job.protocol.arrangement_has_txn
        yield from _write(table, name, barrier.epoch, lambda: table.appended(entries), has_transaction=has_transaction)
        yield "after the arrangement"
    yield from _write_view(job, barrier, part, vnodes)


def _write_view(job: Job, barrier: Barrier, part: int, vnodes: set[int]) -> Attempt:
    view, epoch, protocol = job.view, barrier.epoch, job.protocol
    found = _Epoch(job, barrier, vnodes)
    repairs = {unit for unit in barrier.repairs if job.scan.vnode_of_unit(unit) in vnodes}
    repaired = {unit: found.repaired(unit) for unit in repairs}
    second = repaired if protocol.repair == "second commit" else {}
    removes = _removed(job, found.touched | (repairs - set(second)))
    inserted_alone = repairs if protocol.repair == "inserts only" else set()

    def is_removed(row: Stored) -> bool:
        return row.unit not in inserted_alone and removes(row.unit) and not job.outlives(row, changes)

    def changes() -> list[Stored]:
        return [row for rows in (found.fresh() | without(repaired, second)).values() for row in rows]

    written = found.touched | (repairs if protocol.repair != "beside the chunk" else set())
    read = [row for rows in without(found.read, written).values() for row in rows]
    checks = {"checks_files": protocol.files_checked}
    merge = {"has_transaction": protocol.merge_has_txn, **checks}
    removal, name, chunk, repair = (job.part(of, part) for of in ("removal", "changes", "chunk", "repair"))
    if barrier.commits == "removal apart":
        yield from _write(
            view,
            removal,
            epoch,
            lambda: view.merged(is_removed, ()),
            skips=not protocol.empty_removal_has_txn,
            **checks,
        )
        yield from _write(view, name, epoch, lambda: view.appended(changes()), **merge)
    elif barrier.commits == "chunk apart":
        yield from _write(view, name, epoch, lambda: view.merged(is_removed, changes()), **merge)
    else:
        yield from _write(view, name, epoch, lambda: view.merged(is_removed, changes() + read), **merge)
    if second:
        yield from _write(
            view,
            repair,
            epoch,
            lambda: view.merged(lambda row: row.unit in second, [row for rows in second.values() for row in rows]),
        )
    if barrier.commits != "one":
        yield from _write(view, chunk, epoch, lambda: view.appended(read))


def _write(
    table: Table[R],
    part: str,
    epoch: int,
    stage: Callable[[], Staged[R]],
    *,
    has_transaction: bool = True,
    checks_files: bool = True,
    skips: bool = False,
) -> Attempt:
    """Write once. ``skips`` leaves out a write without an effect, and its transaction with it."""
    while not (has_transaction and table.has(part, epoch)):
        staged = stage()
        yield f"before {part}"
        if skips and not staged.removed and not staged.added:
            return
        if table.commit(staged, part, epoch, has_transaction=has_transaction, checks_files=checks_files):
            return


def without(units: Mapping[Unit, list[Stored]], others: Collection[Unit]) -> dict[Unit, list[Stored]]:
    """Return all units but some."""
    return {unit: rows for unit, rows in units.items() if unit not in others}


@dataclass(frozen=True, slots=True, eq=False)
class _Images:
    """The rows of a unit that go, and those that come."""

    minus: list[Sale]
    plus: list[Sale]


class _Epoch:
    """What one part of an epoch finds: the units that it touches, their new rows, and the units of its chunk."""

    def __init__(self, job: Job, barrier: Barrier, vnodes: set[int]) -> None:
        self._job, self._barrier = job, barrier
        query, scan, protocol = job.query, job.scan, job.protocol
        rows = [row for row in job.rows_as_of(barrier) if scan.vnode(row) in vnodes]
        minus, plus = job.deltas(barrier) if barrier.applies else ([], [])
        minus, plus = ([row for row in images if scan.vnode(row) in vnodes] for images in (minus, plus))
        chunk = [row for row in self._chunk(vnodes) if scan.vnode(row) in vnodes]
        joins_chunk = scan.cuts_units and not barrier.chunk_at_base and protocol.cut_chunk == "joins the changes"
        if joins_chunk:
            plus, chunk = plus + chunk, []
        self.read = {unit: query.stored(unit, found) for unit, found in query.units(chunk).items() if found}
        gone, come = query.units(minus), query.units(plus)
        touched = [unit for unit in {**gone, **come} if scan.vnode_of_unit(unit) in vnodes]
        self._images = {unit: _Images(gone.get(unit, []), come.get(unit, [])) for unit in touched}
        self.touched = {unit for unit in touched if unit in come or protocol.touched_by == "both images"}
        positions = barrier.after if joins_chunk else barrier.filter_by
        self._here = query.units(
            row for row in (plus if protocol.slice_over == "chunk" else rows) if job.is_read(positions, row)
        )
        self._all = query.units(rows)
        self._base = self._states(barrier.since)
        if protocol.hidden_state == "newest":
            self._base = self._states(-1)

    def repaired(self, unit: Unit) -> list[Stored]:
        """
        Return what a repaired unit is to have: the query over its rows of R1, never what the view has of it.

        So the chunk, too, leaves the unit to the repair.
        """
        query, repair = self._job.query, self._job.protocol.repair
        if repair == "adds to the damage" and query.technique == "fold":
            return query.stored_state(unit, self._moved(unit, self._base))
        after, is_read = self._barrier.after, self._job.is_read
        rows = [row for row in self._all[unit] if repair == "of unread rows, too" or is_read(after, row)]
        return query.stored(unit, rows)

    def fresh(self) -> dict[Unit, list[Stored]]:
        """Return what the view is to have of each touched unit."""
        query, protocol = self._job.query, self._job.protocol
        if query.technique == "slice":
            return {unit: query.stored(unit, self._here.get(unit, [])) for unit in self.touched}
        base = self._base if protocol.values == "absolute" else self._states(-1)
        fresh = {unit: query.stored_state(unit, self._moved(unit, base)) for unit in self.touched}
        if protocol.gone_if == "sum is zero":
            return {unit: [row for row in rows if not _has_no_sum(row)] for unit, rows in fresh.items()}
        return fresh

    def _moved(self, unit: Unit, base: Mapping[Unit, State]) -> State:
        images = self._images.get(unit, _Images([], []))
        minus, plus, old = State.of(images.minus), State.of(images.plus), base.get(unit, State())
        moved = old.moved(minus, plus)
        if old.lost_an_extreme(minus) and self._job.protocol.extremes == "read again":
            again = State.of(self._here.get(unit, []))
            return moved._replace(least=again.least, most=again.most)
        return moved

    def _states(self, version: int) -> dict[Unit, State]:
        """Return the hidden states; those of a chunk at V0, too, because its changes come after it."""
        stored = {row.unit: row.row for row in self._job.view.rows(version) if isinstance(row.row, State)}
        if self._barrier.chunk_at_base:
            stored |= {unit: row.row for unit, rows in self.read.items() for row in rows if isinstance(row.row, State)}
        return stored

    def _chunk(self, vnodes: set[int]) -> list[Sale]:
        job, barrier = self._job, self._barrier
        chunk = [row for row in job.chunk_rows(barrier, vnodes) if job.is_in_chunk(barrier, row)]
        if job.protocol.last_chunk == "bounded":
            scan = job.scan
            return [
                row
                for row in chunk
                if (scan.vnode(row), scan.atom(row)) in barrier.planned or barrier.after[scan.vnode(row)] != READ
            ]
        return chunk


def _has_no_sum(row: Stored) -> bool:
    return isinstance(row.row, State) and row.row.total == 0


def _removed(job: Job, units: Collection[Unit]) -> Callable[[Unit], bool]:
    """Return the condition by which a merge finds the units that it replaces."""
    protocol, columns = job.protocol, range(len(job.query.columns))

    def is_same(column: int, one: object, other: object) -> bool:
        if one is None or other is None:
            by_equality = protocol.null_safe == "no column" or (protocol.null_safe == "first column" and column > 0)
            return one is other and not by_equality
        return one == other

    if protocol.matched_by == "each column apart":
        return lambda unit: bool(units) and all(any(is_same(n, unit[n], other[n]) for other in units) for n in columns)
    if protocol.matched_by == "any column" and columns:
        return lambda unit: any(any(is_same(n, unit[n], other[n]) for n in columns) for other in units)
    return lambda unit: any(all(is_same(n, unit[n], other[n]) for n in columns) for other in units)
