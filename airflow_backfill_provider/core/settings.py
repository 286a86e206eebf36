"""
A job's settings: what its users want of it, the one authoritative place for pause and rate limit.

Each change is a record; the newest one is in force and the older ones tell who asked for what. A setting takes
effect with the next barrier that is pinned.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.core.barrier import Barrier, Mutation, PinnedMutation, Repair, digest
from airflow_backfill_provider.core.columns import OwnColumns, names_within, own_columns
from airflow_backfill_provider.core.job import INITIAL_SETTINGS, BackfillJob
from airflow_backfill_provider.core.keys import KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.core.offset import BEGINNING, HistoryPoint, Offset
from airflow_backfill_provider.core.scan import Scan


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


_MUTATIONS = {
    SettingsChange.PAUSE: Mutation.PAUSE,
    SettingsChange.RESUME: Mutation.RESUME,
    SettingsChange.THROTTLE: Mutation.THROTTLE,
    SettingsChange.RESCALE: Mutation.RESCALE,
    SettingsChange.REPAIR: Mutation.REPAIR,
}


class UpstreamColumn(BaseModel):
    """
    A column of the upstream that the job uses.

    :param type: as Delta writes it.
    :param physical_name: its name in the data files, where that is another one (column mapping); a column that was
        dropped and made anew under its old name has a new one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type: str
    physical_name: str | None = None


class ResolvedUpstream(BaseModel):
    """
    What the upstream was when the job was created; later epochs hold it to that.

    :param table_id: the Delta table's id.
    :param columns: the columns that key, distribution key and query use, with their types.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    table_id: str
    columns: tuple[UpstreamColumn, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of the columns, and of all fields inside of them."""
        return names_within({column.name: column.type for column in self.columns})


class JobSettings(BaseModel):
    """
    The settings in force after one change.

    :param sequence: number of the change, from 1.
    :param job: the job's definition as JSON.
    :param strategy: the strategy decided on; never ``auto``.
    :param shape: the shape of the query.
    :param incarnation: changes with every rebuild.
    :param state_table: the control table of per-vnode state; a rebuild begins a new one, for its key may differ.
    :param base_epoch: epochs up to this one belong to earlier incarnations.
    :param start: the point of the upstream's history that the job begins after, because its strategy made something of
        that one when the job was created; ``None`` for all of the history.
    :param paused: whether snapshot reading is paused by the user.
    :param rate_limit: snapshot rows per epoch; ``None`` is unlimited, 0 reads none.
    :param parallelism: runs that share the vnodes, from the next barrier on.
    :param finished_epoch: the epoch as of which the view was marked finished.
    :param value: the argument of the change, such as the new rate limit.
    :param repair: what this very change asks to repair.
    :param repair_sequence: number of the newest change that asked for a repair; 0 if none did.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sequence: int
    change: SettingsChange
    job: dict[str, Any]
    strategy: str
    shape: str
    upstream: ResolvedUpstream
    incarnation: str
    state_table: str = "vnode_state"
    base_epoch: int = 0
    start: HistoryPoint | None = None
    paused: bool = False
    rate_limit: int | None = None
    parallelism: int = 1
    cancelled: bool = False
    finished_epoch: int | None = None
    value: int | None = None
    repair: Repair = Repair()
    repair_sequence: int = 0
    requested_by: str
    requested_at: dt.datetime

    @property
    def types(self) -> dict[str, str]:
        """The used columns' types as of creation."""
        return {column.name: column.type for column in self.upstream.columns}

    @property
    def key_order(self) -> KeyOrder:
        """The key's columns with their types as of creation, in order."""
        types = self.types
        return KeyOrder(
            tuple(
                KeyField(name=column.column, type=types[column.column], descending=column.descending)
                for column in self.definition.upstream.key
            )
        )

    @property
    def own_columns(self) -> OwnColumns:
        """The package's names beside the used columns, in the arrangement too."""
        return own_columns(column.name for column in self.upstream.columns)

    @property
    def definition(self) -> BackfillJob:
        """The job's definition."""
        return BackfillJob(**self.job)

    @property
    def keys(self) -> KeyRange:
        """The keys that the job is about."""
        bounds, order = self.definition.restrict_to.keys, self.key_order
        return KeyRange(order.decode(bounds.after), order.decode(bounds.up_to))

    @property
    def scan(self) -> Scan:
        """How the job's strategy reads the snapshot."""
        return kinds.STRATEGIES.named(self.strategy).scan(self)

    @property
    def first_offset(self) -> Offset:
        """The upstream's offset after which the first epoch's window begins."""
        return BEGINNING if self.start is None else self.start.offset

    def own_table(self, name: str) -> str:
        """Return the location of a table that the strategy makes for this incarnation, beside the control tables."""
        return f"{self.job['state']}/{name}_{self.incarnation}"

    @property
    def definition_digest(self) -> str:
        """Digest of all that decides which rows the view has; pause, rate limit and parallelism do not."""
        job = {name: value for name, value in self.job.items() if name not in INITIAL_SETTINGS}
        return digest({"job": job, "upstream": self.upstream.model_dump(mode="json"), "strategy": self.strategy})

    @property
    def reads_snapshot(self) -> bool:
        """Whether an unfinished job reads snapshot rows: user's pause and rate limit are independent."""
        return not self.paused and self.rate_limit != 0

    def repairs_view(self, barrier: Barrier) -> bool:
        """Tell whether a barrier, or the one after it, repairs the view; then it may hold foreign rows until then."""
        return bool(barrier.repair) or self.repair_sequence > barrier.settings_sequence

    def changed(
        self, change: SettingsChange, *, requested_by: str, requested_at: dt.datetime, **fields: Any
    ) -> JobSettings:
        """Return the next record: this one with one change applied."""
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

    def as_mutation(self) -> PinnedMutation | None:
        """Return what this record means to a running backfill, if anything."""
        mutation = _MUTATIONS.get(self.change)
        if mutation is None:
            return None
        return PinnedMutation(
            mutation=mutation,
            value=self.value,
            requested_by=self.requested_by,
            requested_at=self.requested_at,
        )
