"""
The seam of shapes: what a query makes of rows.

A view consists of *units*: a unit is a row or a group of rows, and is always replaced as a whole. A shape parses a
query and says what its units are. Its Spark side, a :class:`ViewWriter`, turns a chunk and the changes of
a window into writes to the view, each with its own transaction id. The rest of an epoch is the same for all shapes.

A shape's module imports Spark inside its methods, because a scheduler loads it for every DAG.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.refresh import INCREMENTAL_ONLY, Refresh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_backfill_provider.core.epoch.barrier import Barrier
    from airflow_backfill_provider.core.epoch.unit_work import UnitWork
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.core.scan.offset import Offset
    from airflow_backfill_provider.core.scan.table_version import TableVersions
    from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
    from airflow_backfill_provider.shapes.changes import Changes
    from airflow_backfill_provider.shapes.job_query import JobQuery
    from airflow_backfill_provider.shapes.queries import ShapedQuery
    from airflow_backfill_provider.spark.job_rows import JobRows
    from airflow_backfill_provider.spark.view import MaterializedView


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterContext:
    """
    The objects that a writer works with.

    :param spark: the session.
    :param job: the job's definition.
    :param query: the job's query.
    :param job_rows: the rows of the upstream, or of the one that leads, that belong to the job.
    :param view: the view's table.
    :param others: all rows of the upstreams that are read whole, by their names; see ``QueryOverSeveral.read_whole``.
    :param further: the rows of the upstreams that lead further branches, by their names; none for most jobs.
    :param others_begin: the offsets of the upstreams beside the one that leads when the job was created.
    :param placed: the rows of the upstream that leads by the units of joined rows, if history is read by these;
        ``job_rows`` has each row once.
    """

    spark: SparkSession
    job: BackfillJob
    query: JobQuery
    job_rows: JobRows
    view: MaterializedView
    others: Mapping[str, JobRows] = field(default_factory=dict)
    further: Mapping[str, JobRows] = field(default_factory=dict)
    others_begin: Mapping[str, Offset] = field(default_factory=dict)
    placed: JobRows | None = None

    def run(
        self,
        rows: DataFrame,
        others: Mapping[str, DataFrame] = MappingProxyType({}),
        further: Mapping[str, DataFrame] = MappingProxyType({}),
    ) -> DataFrame:
        """
        Run the query over some rows; its conditions skip none because of statistics.

        :param rows: rows that have at least the used columns.
        :param others: such rows of the upstreams that are read whole, by their names; see :meth:`others_at_end`.
        :param further: such rows of the upstreams that lead further branches, by their names.
        :raises InvalidJobError: if Spark cannot analyse the query.
        """
        from airflow_backfill_provider.sources.shared.by_key import column
        from airflow_backfill_provider.spark.query import run_query

        used = rows.select(*map(column, self.job_rows.columns))
        return run_query(self.spark, self.query, used, self.beside(others, further))

    def beside(self, others: Mapping[str, DataFrame], further: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
        """Return the rows of :meth:`run` beside those of the lead, by the names in :attr:`JobQuery.others`."""
        from airflow_backfill_provider.shapes.several import leading
        from airflow_backfill_provider.sources.shared.by_key import column

        used = {name: found.select(*map(column, self.others[name].columns)) for name, found in others.items()}
        for name, found in further.items():
            used[leading(name)] = found.select(*map(column, self.further[name].columns))
        return used

    def without_rows(self) -> DataFrame:
        """
        Run the query over upstreams without rows, for its schema.

        :raises InvalidJobError: if Spark cannot analyse the query.
        """
        empty = [{name: rows.empty() for name, rows in found.items()} for found in (self.others, self.further)]
        return self.run(self.job_rows.empty(), *empty)

    def beside_without_rows(self) -> Mapping[str, DataFrame]:
        """Return what :meth:`beside` returns, without rows."""
        empty = [{name: rows.empty() for name, rows in found.items()} for found in (self.others, self.further)]
        return self.beside(*empty)

    def others_at_begin(self, barrier: Barrier, names: Iterable[str]) -> Mapping[str, DataFrame]:
        """Return for some of the upstreams that are read whole what :meth:`others_at_end` returns, as of the begin."""
        return {name: self.others[name].at(barrier.window(name).from_offset) for name in names}

    def others_at_end(self, barrier: Barrier) -> Mapping[str, DataFrame]:
        """Return the rows of the upstreams that are read whole as of the end of their windows."""
        return {name: rows.at(barrier.window(name).to_offset) for name, rows in self.others.items()}

    def old(self, changes: Changes) -> DataFrame:
        """Return the changed rows as of the window's begin, of those that were there (``ShapedQuery.old_columns``)."""
        from airflow_backfill_provider.spark.net_changes import old_images

        return old_images(self.job_rows, changes.net)

    def new(self, changes: Changes) -> DataFrame:
        """Return the changed rows as of the window's end, of rows that are still there, with the used columns."""
        from airflow_backfill_provider.spark.net_changes import new_images

        return new_images(self.job_rows, changes.net)

    def read_set(self, barrier: Barrier, *, with_chunk: bool) -> DataFrame:
        """
        Return the upstream's rows of which the view consists, each as of the offset that the view has it as of.

        If history is read by the units of joined rows, a row may be read only in part, and all rows are returned.

        :param with_chunk: whether after the whole epoch, or else after its changes and before its chunk.
        :returns: the used columns and the vnode.
        """
        rows, reads = self.job_rows, barrier.view_after if with_chunk else barrier.view_with_changes
        return rows.as_read(reads) if self.placed is None else rows.at(barrier.upstream.to_offset)

    def further_read_set(self, barrier: Barrier) -> Mapping[str, DataFrame]:
        """Return for each upstream that leads a further branch what :meth:`read_set` returns without the chunk."""
        from airflow_backfill_provider.core.epoch.barrier import decoded

        read = [pinned for shown in barrier.view_with_changes for pinned in shown.ranges]
        return {
            name: rows.within(barrier.window(name).to_offset, decoded(read, rows.scan))
            for name, rows in self.further.items()
        }


class ViewWriter(ABC):
    """
    Writes a job's view.

    Each write has a name from :mod:`airflow_backfill_provider.spark.stamps`: one of ``OF_CHANGES`` for changes and
    repairs, ``snapshot_part`` for a part of the chunk. The name is a part of the transaction id, so each write happens
    once and can be given up.

    After a write the unit holds all rows that were read before the epoch (``barrier.read_before``), and in
    :meth:`write_part` also those of all parts of the chunk, as of ``to_offset``. If the shape lets changes wait
    (visibility ``on_finish``), the rows may be as of older offsets; see ``barrier.view_after``.
    """

    @property
    def replaces_leads(self) -> bool:
        """
        Whether it replaces all that comes of a changed key; by default not.

        Then no merge finds a second row of the key in the upstream, so an epoch looks for one.
        """
        return False

    def check(self, rows: DataFrame, table_properties: Mapping[str, str]) -> None:  # noqa: B027
        """
        Refuse a query that Spark or Delta cannot run, before anything is written.

        :param rows: the upstream's newest rows.
        :param table_properties: the table properties in the job's definition.
        :raises InvalidJobError: with the column.
        """

    @abstractmethod
    def schema(self) -> StructType:
        """
        Return the view's columns.

        :raises InvalidJobError: if Spark cannot analyse the query.
        """

    def state(self) -> Mapping[str, str]:
        """
        Return the hidden columns that the view needs to keep the state of its units; by default none.

        This is asked once, before the job is created. The settings pin the columns, and the query has them from then on
        (:meth:`ShapedQuery.with_state`).

        :returns: name → SQL over the rows of a unit.
        """
        return {}

    def placed_changes(self, changes: Changes, barrier: Barrier) -> AbstractContextManager[DataFrame]:
        """
        Give the net changes of :attr:`WriterContext.placed`, for the time of a block.

        :param changes: all changes of the window, also those that touch no unit that was read.
        :returns: what :func:`~airflow_backfill_provider.spark.unit_places.net_by_unit` returns.
        :raises NotImplementedError: if no unit of the shape depends on several upstreams.
        """
        del changes, barrier
        raise NotImplementedError(f"{type(self).__name__} has units that depend on one upstream")

    def keys(self, view: DataFrame) -> DataFrame:
        """
        Return the upstream's keys of a view's rows, under the names of the key columns.

        :raises NotImplementedError: if the view's rows are not the upstream's.
        """
        raise NotImplementedError(f"{type(self).__name__} has no keys of the upstream in its view")

    @abstractmethod
    def write_changes(
        self,
        changes: Changes,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        repairs: bool,
        since: TableVersions | None,
    ) -> UnitWork | None:
        """
        Apply changes to the view, once per epoch.

        :param repairs: whether the view may have foreign rows, which a repair removes.
        :param since: the tables' versions after the previous epoch, which are the same for every attempt; ``None`` if
            there was none.
        :returns: what it did with the view's units, the same for every attempt; ``None`` if units are rows. Without
            ``rows_read``, it read all rows of the upstream again.
        """

    @abstractmethod
    def write_part(
        self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        """
        Write a part of the chunk to the view, once per epoch; a part without rows needs a commit, too.

        Parts are written at the same time, by threads of one session and by several task runs. Two parts may touch one
        unit.

        :param rows: the part's rows, with at least the used columns.
        :param since: as in :meth:`write_changes`.
        """

    def write_part_of_leads(
        self,
        rows: DataFrame,
        further: Mapping[str, DataFrame],
        part: int,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        since: TableVersions | None,
    ) -> None:
        """
        Write a part of a chunk of several upstreams, likewise.

        :param rows: the part's rows of the upstream that leads.
        :param further: those of the upstreams that lead further branches, by their names.
        :raises NotImplementedError: if the history of a view of the shape is that of one upstream.
        """
        del rows, part, identity, barrier, since
        raise NotImplementedError(f"{type(self).__name__} reads the history of one upstream, and not {[*further]}")

    @abstractmethod
    def repair(
        self, changes: Changes | None, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> UnitWork | None:
        """
        Apply changes to the view and rewrite the units that a barrier's repair names, in one commit, once per epoch.

        An epoch that repairs takes this step in place of :meth:`write_changes` (I7). ``Barrier.repair`` has vnodes, and
        single units: under ``keys`` if units are rows of the upstream, else under ``units``, encoded by
        ``Units.order``. More may be rewritten than is named.

        :param changes: the changes; ``None`` if there are none.
        :param since: as in :meth:`write_changes`.
        :returns: as :meth:`write_changes`.
        """

    def write_whole(self, part: str, identity: ViewIdentity, barrier: Barrier) -> UnitWork:
        """
        Replace all rows of the view by the query over :meth:`WriterContext.read_set`, in one commit, once per epoch.

        For a shape with another ``refresh`` than ``incremental``, or with :attr:`Shape.replaces_columns`. The changes
        are not read. With ``Barrier.columns_change``, the view gets the query's columns, too.

        :param part: the part of the epoch: changes or repair.
        :returns: as :meth:`write_changes`.
        :raises NotImplementedError: if the shape computes only what changes touch.
        """
        del part, identity, barrier
        raise NotImplementedError(f"{type(self).__name__} never computes the whole view")


class Shape(ABC):
    """
    A kind of query, and how its view is written.

    Under some strategies :attr:`only_visibility`, :attr:`single_part` and :attr:`whole_history` do not hold; see
    :mod:`airflow_backfill_provider.core.shape_limits`.
    """

    name: ClassVar[str]
    """The shape's name."""

    strategies: ClassVar[frozenset[str] | None] = None
    """The names of the strategies that can fill a view of this shape; ``None``, the default, for all."""

    only_visibility: ClassVar[Visibility | None] = None
    """The only visibility that the shape supports, which is then its jobs' default; ``None``, the default, for all."""

    default_visibility: ClassVar[Visibility | None] = None
    """
    The visibility of jobs that name neither one nor a strategy, if the shape supports others, too; ``None``, the
    default, for ``every_epoch``.
    """

    single_part: ClassVar[bool] = False
    """Whether one task run alone must write an epoch, so that jobs have no parallelism."""

    whole_history: ClassVar[bool] = False
    """Whether one epoch must read all of history, so that jobs have no rate limit and no pace."""

    adds_rows: ClassVar[bool] = False
    """Whether rows that are only appended are added to the units that the view has, however few at a time."""

    has_keys: ClassVar[bool] = False
    """
    Whether a unit is a row of the upstream, and the view holds its key: see :meth:`ViewWriter.keys`. Otherwise a repair
    names units, and an upstream that may be cleared at once, such as by TRUNCATE, is refused.
    """

    refreshes: ClassVar[frozenset[Refresh]] = INCREMENTAL_ONLY
    """The kinds of ``refresh`` that jobs of this shape may have."""

    replaces_columns: ClassVar[bool] = False
    """Whether a changed query may give a view of this shape other columns, by :meth:`ViewWriter.write_whole`."""

    keeps_former_rows: ClassVar[bool] = False
    """Whether a view of this shape can keep rows that the query no longer gives: ``keep: deleted`` and ``history``."""

    former_rows_by_version: ClassVar[bool] = False
    """
    Whether it keeps them as of each version of the upstream: its writer gets the changes of each. Otherwise its writer
    replaces whole units, by :meth:`MaterializedView.replace_units`, and their rows as of each epoch are kept.
    """

    needs_changes: ClassVar[bool] = True
    """Whether epochs read the upstream's changes; otherwise the upstream need not record them."""

    pins_columns: ClassVar[bool] = False
    """Whether settings pin the view's columns: :meth:`ShapedQuery.units` needs types that only Spark knows."""

    def claims(self, text: str) -> bool:
        """
        Return whether a query looks like one of this shape; by default not.

        If no shape accepts a query, users read the refusal of the first shape that claims it.
        """
        del text
        return False

    takes_upstreams: ClassVar[bool] = False
    """
    Whether a query may read the tables of a job with ``upstreams``; then it is a
    :class:`~airflow_backfill_provider.shapes.several.QueryOverSeveral`.
    """

    @abstractmethod
    def query(self, text: str) -> ShapedQuery:
        """
        Parse a query.

        :raises InvalidJobError: if the query does not have this shape; the message names the construct.
        """

    def require_job(self, job: BackfillJob) -> None:  # noqa: B027 - most refuse nothing
        """
        Refuse a job of this shape that asks for something that the shape cannot do.

        :raises InvalidJobError: with the field.
        """

    @abstractmethod
    def writer(self, context: WriterContext) -> ViewWriter:
        """Return the writer on Spark, for a job's epochs."""
