"""
A job's settings: what its users want; the only authority for pause, rate limit, pace and parallelism.

Each change is a record. The newest record is in force; the older ones are the history. A change takes effect with the
next barrier that is pinned.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.core.digest import digest
from airflow_backfill_provider.core.epoch.barrier import Barrier, Mutation, PinnedMutation
from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.errors import ConcurrentUpdateError
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.job.adoption import Adopted
from airflow_backfill_provider.core.job.cut_over import ApprovedCutOver, ProposedDefinition
from airflow_backfill_provider.core.job.definition import INITIAL_SETTINGS, BackfillJob
from airflow_backfill_provider.core.job.rate_limit import AskedRate, RateLimit
from airflow_backfill_provider.core.job.succession import FirstRows, Successor
from airflow_backfill_provider.core.scan.columns import OwnColumns, names_within, own_columns
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.offset import BEGINNING, HistoryPoint, Offset
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.core.scan.scan import Scan


class SettingsChange(StrEnum):
    """Why a settings record was written."""

    CREATE = "create"
    PAUSE = "pause"
    RESUME = "resume"
    THROTTLE = "throttle"
    RESCALE = "rescale"
    REPAIR = "repair"
    CANCEL = "cancel"
    FINISH = "finish"
    REBUILD = "rebuild"
    GROW_SUCCESSOR = "grow_successor"
    HAND_OVER = "hand_over"
    REVERT = "revert"
    FOUND_EQUAL = "found_equal"
    CHANGE = "change"
    PROPOSE_CHANGE = "propose_change"
    APPROVE = "approve"
    GIVE_UP_CUT_OVER = "give_up_cut_over"


_MUTATIONS = {
    SettingsChange.PAUSE: Mutation.PAUSE,
    SettingsChange.RESUME: Mutation.RESUME,
    SettingsChange.THROTTLE: Mutation.THROTTLE,
    SettingsChange.RESCALE: Mutation.RESCALE,
    SettingsChange.REPAIR: Mutation.REPAIR,
    SettingsChange.CHANGE: Mutation.CHANGE,
}


def initial_settings_of(source: object) -> dict[str, Any]:
    """
    Return the values of :data:`~airflow_backfill_provider.core.job.definition.INITIAL_SETTINGS`.

    :param source: a job, or settings.
    """
    return {name: getattr(source, name) for name in INITIAL_SETTINGS}


class UpstreamColumn(Frozen):
    """
    A column of the upstream that the job uses.

    :param type: its type, as Delta writes it.
    :param physical_name: its name in the data files, if it differs (column mapping). A column that was dropped and
        created again under the same name has a new physical name.
    :param required: whether it is never null, if the query's shape may rely on that: of a job with several upstreams.
    """

    name: str
    type: str
    physical_name: str | None = None
    required: Annotated[bool, Field(exclude_if=lambda required: not required)] = False


class ViewColumn(Frozen):
    """
    A column of the view, as Spark resolved the query when the job was created.

    :param type: its type, as Delta writes it.
    :param of_rows: for a hidden column that keeps the state of a unit: its value for the rows of the unit, as SQL;
        ``None`` for a column of the query.
    """

    name: str
    type: str
    of_rows: Annotated[str | None, Field(exclude_if=lambda found: found is None)] = None


class ResolvedUpstream(Frozen):
    """
    The upstream when the job was created; every epoch checks that it is still the same.

    :param table_id: the table's id.
    :param columns: the columns that key, distribution key and query use, with their types.
    :param pinned: what else the source needs to read the same rows for ever, such as the schema of records; empty for
        most.
    :param compared: whether its changes are found by comparing its rows at both ends of a window, because it recorded
        none when the job was created; only of upstreams beside the one that leads.
    :param others: the upstreams beside the one that leads, by their names in the query; empty for most jobs.
    """

    table_id: str
    columns: tuple[UpstreamColumn, ...]
    pinned: Annotated[Mapping[str, str], Field(exclude_if=lambda found: not found)] = {}
    compared: Annotated[bool, Field(exclude_if=lambda compared: not compared)] = False
    others: Annotated[Mapping[str, OtherUpstream], Field(exclude_if=lambda found: not found)] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of the columns and of all fields nested in them."""
        return names_within(self.types)

    @property
    def all_names(self) -> frozenset[str]:
        """The same, with those of the other upstreams."""
        return self.names.union(*(other.names for other in self.others.values()))

    @property
    def types(self) -> dict[str, str]:
        """The types of the columns by name."""
        return {column.name: column.type for column in self.columns}

    @property
    def required(self) -> frozenset[str]:
        """The columns that are never null, as far as that is pinned."""
        return frozenset(column.name for column in self.columns if column.required)


class OtherUpstream(ResolvedUpstream):
    """
    An upstream beside the one that leads, when the job was created.

    :param point: the point of its history that the job's first window of it begins after. The points of all upstreams
        are as of one instant.
    """

    point: HistoryPoint


class JobSettings(Frozen):
    """
    The settings in force after one change.

    :param sequence: number of the change, from 1.
    :param job: the job's definition as JSON.
    :param strategy: the chosen strategy; never ``auto``.
    :param shape: the shape of the query.
    :param view_columns: the view's columns, if the query's shape pins them; empty for most.
    :param incarnation: changes with every rebuild.
    :param state_table: the control table of per-vnode state; a rebuild begins a new one, because its key may differ.
    :param base_epoch: epochs up to this one belong to earlier incarnations.
    :param start: the point of the upstream's history after which the job begins, because the strategy's own table was
        created from this point; ``None`` for the whole history.
    :param offset_at_creation: the upstream's newest offset when the job was created or rebuilt.
    :param paused: whether snapshot reading is paused by the user.
    :param rate_limit: snapshot rows per epoch; ``None`` is unlimited, 0 reads none, ``auto`` follows the speed.
    :param target_epoch_seconds: how long an epoch should take with ``auto``.
    :param max_rows_per_second: the most snapshot rows per second of a run of several epochs; ``None`` is unlimited.
    :param parallelism: the number of task runs that share the vnodes, from the next barrier on.
    :param finished_epoch: the epoch with which the view was marked as finished.
    :param value: the argument of the change, such as the new rate limit.
    :param repair: the repair that this change requests.
    :param repair_sequence: number of the newest change that requests a repair; 0 if none does.
    :param successor: the rebuild that grows beside the view; ``None`` if there is none.
    :param first_rows: the rows that the incarnation's view begins with; ``None`` if it begins empty.
    :param equal_sequence: number of the change since which adopted rows are known to equal the query; 0 if not yet.
    :param proposed: a changed definition that waits for an approval; ``None`` if there is none.
    :param approved: the newest approval of a cut-over, of whatever incarnation.
    """

    sequence: int
    change: SettingsChange
    job: dict[str, Any]
    strategy: str
    shape: str
    upstream: ResolvedUpstream
    view_columns: Annotated[tuple[ViewColumn, ...], Field(exclude_if=lambda found: not found)] = ()
    incarnation: str
    state_table: str = "vnode_state"
    base_epoch: int = 0
    start: HistoryPoint | None = None
    offset_at_creation: Offset | None = None
    paused: bool = False
    rate_limit: RateLimit = None
    target_epoch_seconds: float | None = None
    max_rows_per_second: int | None = None
    parallelism: int = 1
    cancelled: bool = False
    finished_epoch: int | None = None
    value: RateLimit = None
    repair: Repair = Repair()
    repair_sequence: int = 0
    successor: Annotated[Successor | None, Field(exclude_if=lambda found: found is None)] = None
    first_rows: Annotated[FirstRows | None, Field(exclude_if=lambda found: found is None)] = None
    equal_sequence: Annotated[int, Field(exclude_if=lambda found: not found)] = 0
    proposed: Annotated[ProposedDefinition | None, Field(exclude_if=lambda found: found is None)] = None
    approved: Annotated[ApprovedCutOver | None, Field(exclude_if=lambda found: found is None)] = None
    requested_by: str
    requested_at: dt.datetime

    @property
    def types(self) -> dict[str, str]:
        """The types of the used columns when the job was created."""
        return self.upstream.types

    @property
    def others(self) -> Mapping[str, OtherUpstream]:
        """The upstreams beside the one that leads, by their names in the query; empty for most jobs."""
        return self.upstream.others

    @property
    def view_types(self) -> dict[str, str]:
        """The types of the view's columns, as far as they are pinned."""
        return {column.name: column.type for column in self.view_columns}

    @property
    def state_columns(self) -> dict[str, str]:
        """The view's hidden columns that keep the state of units: name → SQL over the rows of a unit."""
        return {column.name: column.of_rows for column in self.view_columns if column.of_rows is not None}

    @cached_property
    def key_order(self) -> KeyOrder:
        """The key's columns in order, with their types when the job was created."""
        types = self.types
        return KeyOrder(
            tuple(
                KeyField(name=column.column, type=types[column.column], descending=column.descending)
                for column in self.definition.upstream.key
            )
        )

    @property
    def own_columns(self) -> OwnColumns:
        """This package's column names for the used columns; the arrangement has the same ones."""
        return own_columns(column.name for column in self.upstream.columns)

    @cached_property
    def definition(self) -> BackfillJob:
        """The job's definition."""
        return BackfillJob(**self.job)

    @cached_property
    def keys(self) -> KeyRange:
        """The range of keys that the job reads."""
        bounds, order = self.definition.restrict_to.keys, self.key_order
        return KeyRange(order.decode(bounds.after), order.decode(bounds.up_to))

    @cached_property
    def scan(self) -> Scan:
        """The scan of the job's strategy."""
        return kinds.STRATEGIES.named(self.strategy).scan(self)

    @property
    def initial_state(self) -> BackfillState:
        """The state that the incarnation begins with: nothing is read, unless its rows were adopted, and then all."""
        scan, epoch = self.scan, self.base_epoch
        state = scan.initial(epoch)
        return scan.advanced(state, epoch=epoch, ranges=(EVERYTHING,), rows={}) if self.adopted else state

    @property
    def adopted(self) -> Adopted | None:
        """What was found of a table that the incarnation's view was made of; ``None`` if the view was computed."""
        return None if self.first_rows is None else self.first_rows.adopted

    @property
    def adopts_in_place(self) -> bool:
        """Whether the incarnation's view is a table that was there before."""
        return self.adopted is not None and self.definition.adopts_in_place

    @property
    def position_order(self) -> KeyOrder:
        """The columns of a vnode's position: those of the scan's order without the vnode."""
        return KeyOrder(tuple(field for field in self.scan.order.fields if field.name != self.own_columns.vnode))

    @property
    def has_shared_position(self) -> bool:
        """Whether positions don't depend on the vnode, so that all vnodes share one."""
        return self.scan.order == self.position_order

    @property
    def first_offset(self) -> Offset:
        """The offset of the upstream after which the job begins."""
        return BEGINNING if self.start is None else self.start.offset

    @property
    def first_point(self) -> HistoryPoint | None:
        """
        The point of the upstream's history that the first epoch's window begins after; ``None`` for the whole history.

        It is the job's start, unless the view begins with rows that are as of a later point.
        """
        return self.start if self.first_rows is None else self.first_rows.point

    @property
    def first_window_after(self) -> Offset:
        """The offset of :attr:`first_point`."""
        return BEGINNING if self.first_point is None else self.first_point.offset

    def first_point_of(self, relation: str) -> HistoryPoint | None:
        """Return the point that the first epoch's window of an upstream begins after; see :attr:`first_point`."""
        if relation not in self.others:
            return self.first_point
        begun = self.others[relation].point
        return begun if self.first_rows is None else self.first_rows.others.get(relation, begun)

    def own_table(self, name: str) -> str:
        """Return the location of a table of the strategy in this incarnation, beside the control tables."""
        return f"{self.job['state']}/{name}_{self.incarnation}"

    @property
    def definition_digest(self) -> str:
        """Digest of everything that decides which rows the view has; leaves out the first settings."""
        job = {name: value for name, value in self.job.items() if name not in INITIAL_SETTINGS}
        pinned = {"view_columns": [column.model_dump() for column in self.view_columns]} if self.view_columns else {}
        upstream = self.upstream.model_dump(mode="json")
        return digest({"job": job, "upstream": upstream, "strategy": self.strategy, **pinned})

    @property
    def rate(self) -> AskedRate:
        """What is asked of the job's speed."""
        return AskedRate.of(self)

    @property
    def reads_snapshot(self) -> bool:
        """Whether an unfinished job reads snapshot rows: it is not paused, and its rate limit is not 0."""
        return not self.paused and self.rate_limit != 0

    @property
    def needs_changes(self) -> bool:
        """Whether epochs read the upstream's changes."""
        return kinds.SHAPES.named(self.shape).needs_changes

    def repairs_view(self, barrier: Barrier) -> bool:
        """Return whether a barrier or the next one repairs the view. Until then it may have rows of other writers."""
        return bool(barrier.repair) or self.repair_sequence > barrier.settings_sequence

    def may_differ(self, barrier: Barrier) -> bool:
        """
        Return whether the view may have rows that the query did not give when a barrier was pinned.

        So may a repaired view, one that gets another filter, and an adopted one until a comparison of all vnodes finds
        it equal.
        """
        is_known = 0 < self.equal_sequence <= barrier.settings_sequence
        other = barrier.filter_change is not None or (self.adopted is not None and not is_known)
        return self.repairs_view(barrier) or other

    def changed(
        self, change: SettingsChange, *, requested_by: str, requested_at: dt.datetime, **fields: Any
    ) -> JobSettings:
        """Return the next record: these settings with one change."""
        update = {
            "value": None,
            "repair": Repair(),
            **fields,
            "sequence": self.sequence + 1,
            "change": change,
            "requested_by": requested_by,
            "requested_at": requested_at,
        }
        return self.model_copy(update=update)

    def require_unchanged(self, before: JobSettings) -> None:
        """
        Refuse a change that was decided by earlier settings than these.

        :raises ConcurrentUpdateError: if the settings changed meanwhile.
        """
        if self.sequence != before.sequence:
            raise ConcurrentUpdateError(f"the settings of job {self.job['name']} changed meanwhile; try again")

    def as_mutation(self) -> PinnedMutation | None:
        """Return the mutation of this change; ``None`` if the change does not affect barriers."""
        mutation = _MUTATIONS.get(self.change)
        if mutation is None:
            return None
        return PinnedMutation(
            mutation=mutation,
            value=self.value,
            requested_by=self.requested_by,
            requested_at=self.requested_at,
        )
