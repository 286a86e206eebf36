"""
Answers why a view has a row, or why it does not.

The view's log tells which epoch wrote the row, and the barrier log what that epoch read. Of a Delta upstream, its log
tells who wrote the row there. All of this is found without Spark where the statistics of files narrow the search down;
the caller decides whether the rest is worth a start of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_backfill_provider.core.epoch.barrier import Barrier, decoded
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import BackfillError, InvalidJobError, RowNotTraceableError
from airflow_backfill_provider.core.job.named_key import whole_key
from airflow_backfill_provider.core.scan.keys import EncodedPosition, KeyField, KeyOrder, Position
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.row_answer import Reason, RowAnswer, WrittenRow
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.files.vnode_hash import vnodes_of
from airflow_backfill_provider.lake.tables.chunk_keys import hashed_fields
from airflow_backfill_provider.lake.tables.row_trace import FoundRow, RowTrace
from airflow_backfill_provider.shapes import resolved_query_of, shape_of
from airflow_backfill_provider.shapes.queries import ShapedQuery, Units
from airflow_backfill_provider.shapes.row.conditions import conditions_of, meets
from airflow_backfill_provider.shapes.row.query import RowQuery

_WHOLE_QUERY = "the query as a whole"

_OF_CHANGES = {"changes": Reason.CHANGE, "repair": Reason.REPAIR}


class RowFinder(Protocol):
    """What only Spark can find; see :mod:`airflow_backfill_provider.engine.row_finder`."""

    def files_with(self, location: str, version: int, order: KeyOrder, key: EncodedPosition) -> list[str]:
        """Return the files of a version of a table that have rows with a key."""
        ...

    def conditions_met(
        self, settings: JobSettings, offset: Offset, key: EncodedPosition, conditions: Sequence[str]
    ) -> list[bool]:
        """Return for each condition whether the upstream's row with a key meets it."""
        ...

    def passes(self, settings: JobSettings, offset: Offset, key: EncodedPosition) -> bool:
        """Return whether the query gives a row for the upstream's row with a key."""
        ...


def why(backfill: Backfill, key: object, *, finder: Callable[[], RowFinder] | None = None) -> RowAnswer:
    """
    Answer why the view of a job has a row, or why not.

    :param key: the unit of the view: a value, or a list with one for each column that identifies it. If units are rows
        of the upstream, that is its key.
    :param finder: what finds with Spark what is not found without; ``None`` to refuse instead.
    :raises InvalidJobError: if the view has no such units.
    :raises RowNotTraceableError: if the answer takes Spark, with what it costs.
    :raises BackfillError: if a table cannot be read.
    """
    backfill.require_ours()
    settings = backfill.store.settings_of_view()
    query = resolved_query_of(settings)
    units = query.units(settings, by_key=False)
    if not units.order.fields:
        raise InvalidJobError(
            f"why: the view of job {settings.job['name']} has no columns that identify a row; all of its rows are as "
            "of the last epoch"
        )
    wanted = whole_key(key, units.order, "key of the view", "why")
    return _Question(backfill, settings, query, units, wanted, finder).answer()


@dataclass(frozen=True)
class _Question:
    """One question."""

    backfill: Backfill
    settings: JobSettings
    query: ShapedQuery
    units: Units
    key: Position
    finder: Callable[[], RowFinder] | None
    notes: list[str] = field(default_factory=list)
    costs: list[str] = field(default_factory=list)

    @property
    def encoded(self) -> EncodedPosition:
        """The key as text."""
        return self.units.order.encode(self.key) or ()

    @property
    def is_of_rows(self) -> bool:
        """Whether the view's units are the rows of the upstream."""
        return shape_of(self.settings.definition).has_keys

    def answer(self) -> RowAnswer:
        """Look into the view, and then where that leads."""
        names = zip(self.units.outputs, self.units.order.fields, strict=True)
        order = KeyOrder(tuple(KeyField(name=output, type=found.type) for output, found in names))
        trace = RowTrace(self.settings.definition.view_location, order, None, self.backfill.storage_options)
        found = [row for row in self._find(trace, order) if self._is_present(trace, row)]
        facts = self._of_present(trace, found) if found else self._of_absent()
        return RowAnswer(
            job=self.settings.job["name"],
            key=self.encoded,
            present=bool(found),
            notes=tuple(self.notes),
            left_to_spark="; ".join(self.costs),
            **{**self._verified(facts), **facts},
        )

    def _is_present(self, trace: RowTrace, row: FoundRow) -> bool:
        """Return whether the query gives a row of the view, or it is a former one."""
        keep = self.settings.definition.keep
        return not keep.keeps_former_rows or keep.is_present(trace.values(row, keep.columns))

    def _find(self, trace: RowTrace, order: KeyOrder, key: Position | None = None) -> list[FoundRow]:
        wanted = self.key if key is None else key
        try:
            return trace.find(wanted)
        except RowNotTraceableError:
            if self.finder is None:
                raise
            encoded = order.encode(wanted) or ()
            return trace.find_in(self.finder().files_with(trace.location, trace.version, order, encoded), wanted)

    # ------------------------------------------------------------------------------------------- the view has it

    def _of_present(self, trace: RowTrace, found: Sequence[FoundRow]) -> dict[str, Any]:
        written = max((trace.written(row, self.key) for row in found), key=lambda commit: commit.version)
        stamp = written.stamped
        facts: dict[str, Any] = {"view": written}
        if stamp.get("incarnation") != self.settings.incarnation or "epoch" not in stamp:
            event = stamp.get("event")
            return {**facts, "reason": Reason.COPIED if event in {"create", "succeed"} else Reason.UNKNOWN}
        barrier = self.backfill.store.pinned(int(stamp["epoch"]))
        reason = _OF_CHANGES.get(str(stamp.get("part")), Reason.CHUNK)
        offset = barrier.chunk_offset if reason is Reason.CHUNK else barrier.upstream.to_offset
        facts |= {"reason": reason, "epoch": barrier.epoch, "epoch_by": str(barrier.injected_by)}
        changed = sorted(barrier.changed_others) if reason is not Reason.CHUNK else []
        self.notes.extend(f"rows of {name} changed in the same epoch" for name in changed)
        return {**facts, "upstream_offset": offset, "upstream": self._upstream_commit(barrier, reason, offset)}

    def _upstream_commit(self, barrier: Barrier, reason: Reason, offset: Offset) -> WrittenRow | None:
        """Return the upstream's commit that the row came with, if its log still tells that."""
        place = self.backfill.upstream.table_at(offset)
        columns = self._lead_columns()
        if place is None or columns is None:
            return None
        location, version = place
        try:
            trace = RowTrace(location, columns, version, self.backfill.storage_options)
            if not self.is_of_rows:
                began = self.backfill.upstream.table_at(barrier.changes_after)
                return None if reason is Reason.CHUNK else trace.touched(self.key, began[1] if began else -1)
            found = self._find(trace, columns)
            return trace.written(found[0], self.key) if found else None
        except RowNotTraceableError as error:
            self.costs.append(str(error))
            return None
        except BackfillError as error:
            self.notes.append(f"which commit of the upstream wrote it is not known: {error}")
            return None

    def _lead_columns(self) -> KeyOrder | None:
        """Return the upstream's columns that have the unit's values; ``None`` if expressions make these."""
        if self.is_of_rows:
            return self.settings.key_order
        names = self.query.unit_columns(sorted(self.settings.upstream.names))
        if len(names) != len(self.key):
            return None
        fields = zip(names, self.units.order.fields, strict=True)
        return KeyOrder(tuple(KeyField(name=name, type=unit.type) for name, unit in fields))

    # ------------------------------------------------------------------------------------- the view does not have it

    def _of_absent(self) -> dict[str, Any]:
        committed = self.backfill.store.commits(since_epoch=self.settings.base_epoch + 1)
        if not committed:
            return {"reason": Reason.NOT_READ}
        barrier = self.backfill.store.pinned(committed[-1].epoch)
        offset = barrier.upstream.to_offset
        facts: dict[str, Any] = {"epoch": barrier.epoch, "upstream_offset": offset}
        place, columns = self.backfill.upstream.table_at(offset), self._lead_columns()
        if place is None or columns is None:
            raise InvalidJobError(
                "why: the view has no such row, and why not is known only of rows of one Delta table, and of groups by "
                "its plain columns; look for the row in the upstream"
            )
        trace = RowTrace(place[0], columns, place[1], self.backfill.storage_options)
        found = self._find(trace, columns)
        if not found:
            return {**facts, **self._of_gone(trace, columns)}
        return {**facts, **self._of_left_out(barrier, trace, found[0])}

    def _of_gone(self, trace: RowTrace, columns: KeyOrder) -> dict[str, Any]:
        """Return why a row that the upstream does not have as of the last epoch is not in the view."""
        newest = self.backfill.upstream.table_at(self.backfill.upstream.latest())
        if newest is not None and newest[1] > trace.version:
            later = RowTrace(newest[0], columns, newest[1], self.backfill.storage_options)
            if found := self._find(later, columns):
                return {"reason": Reason.NOT_YET, "upstream": later.written(found[0], self.key)}
        removed = trace.removed(self.key)
        return {"reason": Reason.NOT_THERE if removed is None else Reason.DELETED, "upstream": removed}

    def _of_left_out(self, barrier: Barrier, trace: RowTrace, row: FoundRow) -> dict[str, Any]:
        """Return why a row that the upstream has as of the last epoch is not in the view."""
        facts: dict[str, Any] = {"upstream": trace.written(row, self.key)}
        if not self.is_of_rows:
            completed = self.backfill.store.state().completed
            return {**facts, "reason": Reason.FILTERED if completed else Reason.NOT_READ}
        job, vnode = self.settings.definition, self._vnode(trace, row)
        if not self.settings.keys.contains(self.key, self.settings.key_order) or (
            vnode is not None and vnode not in job.vnodes
        ):
            return {**facts, "reason": Reason.FILTERED, "conditions": ("restrict_to",)}
        seen = self._shown_as_of(barrier, vnode)
        if seen is None:
            state = self.backfill.store.state()
            read = None if vnode is None else state.vnodes[vnode].row_count
            return {**facts, "reason": Reason.NOT_READ, "vnode": vnode, "rows_read_of_vnode": read}
        if seen < barrier.upstream.to_offset and not self._was_there(seen):
            return {**facts, "reason": Reason.WAITING, "upstream_offset": seen}
        return {**facts, **self._conditions(trace, row, barrier.upstream.to_offset)}

    def _vnode(self, trace: RowTrace, row: FoundRow) -> int | None:
        """Return the row's vnode; ``None`` if only Spark can hash its values."""
        fields = hashed_fields(self.settings.definition, self.settings.types)
        if fields is None:
            return None
        values = trace.rows(row, [found.name for found in fields], {found.name: found for found in fields})
        return int(vnodes_of(values, fields, self.settings.definition.vnode_count)[0].as_py())

    def _shown_as_of(self, barrier: Barrier, vnode: int | None) -> Offset | None:
        """Return the offset that the view has the row as of; ``None`` if it was not read."""
        scan, own = self.settings.scan, self.settings.own_columns.vnode
        names, keys = scan.order.names, self.settings.key_order.names
        if names == keys:
            position: Position = self.key
        elif names == (own, *keys) and vnode is not None:
            position = (vnode, *self.key)
        else:
            # Positions are no keys: history counts as read once all of it is.
            return barrier.single_offset if self.backfill.store.state().completed else None
        for read in barrier.view_after:
            if any(covered.contains(position, scan.order) for covered in decoded(read.ranges, scan.order)):
                return read.offset
        return None

    def _was_there(self, offset: Offset) -> bool:
        place = self.backfill.upstream.table_at(offset)
        if place is None:
            return False
        order = self.settings.key_order
        return bool(self._find(RowTrace(place[0], order, place[1], self.backfill.storage_options), order))

    def _conditions(self, trace: RowTrace, row: FoundRow, offset: Offset) -> dict[str, Any]:
        """Return which conditions of the query the row does not meet."""
        if not isinstance(self.query, RowQuery):
            self.notes.append(
                "a condition of the query leaves it out, or another table has no match; if neither does, verify the job"
            )
            return {"reason": Reason.FILTERED}
        conditions = conditions_of(self.query)
        if conditions is None:
            return self._by_spark((), (_WHOLE_QUERY,), offset)
        values = trace.values(row, sorted(self.settings.upstream.names))
        decided = {condition: meets(condition, values) for condition in conditions}
        failing = tuple(condition for condition, met in decided.items() if met is False)
        return self._by_spark(failing, tuple(name for name, met in decided.items() if met is None), offset)

    def _by_spark(self, failing: tuple[str, ...], undecided: tuple[str, ...], offset: Offset) -> dict[str, Any]:
        if failing or not undecided:
            reason = Reason.FILTERED if failing else Reason.MISSING
            return {"reason": reason, "conditions": failing, "undecided": undecided}
        if self.finder is None:
            raise RowNotTraceableError(
                f"only Spark can check {'; '.join(undecided)} on the row, which the upstream has: it reads the files "
                "that may have the key, and computes the condition of one row"
            )
        if undecided == (_WHOLE_QUERY,):
            passes = self.finder().passes(self.settings, offset, self.encoded)
            return {"reason": Reason.MISSING if passes else Reason.FILTERED, "conditions": () if passes else undecided}
        met = self.finder().conditions_met(self.settings, offset, self.encoded, undecided)
        failed = tuple(condition for condition, is_met in zip(undecided, met, strict=True) if not is_met)
        return {"reason": Reason.FILTERED if failed else Reason.MISSING, "conditions": failed}

    # ---------------------------------------------------------------------------------------------- verification

    def _verified(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return when the view was found equal to its query since the row is as it is."""
        newest = self.backfill.verifications.newest_finished(self.settings.incarnation)
        if newest is None:
            return {}
        written: WrittenRow | None = facts.get("view")
        since = written.version if written else None
        if since is not None and newest.pinned.view_version < since:
            return {}
        if not newest.equal:
            self.notes.append(f"the newest verification, of epoch {newest.pinned.epoch}, found differences")
            return {}
        return {"verified_epoch": newest.pinned.epoch, "verified_at": newest.verified_at}
