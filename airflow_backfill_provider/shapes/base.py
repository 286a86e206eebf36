"""
The seam of shapes: what a query makes of rows.

A view consists of *units* that are replaced together: rows, or groups of rows. A shape reads a query and says what its
units are. Its half on Spark, a :class:`ViewWriter`, turns a chunk and the changes of a window into writes to the view,
each with a transaction id of its own. Everything else about an epoch is the same for all.

A shape's own module imports Spark inside of its methods: whoever defines a job loads it, and a scheduler does so for
every DAG.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.keys import KeyOrder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_backfill_provider.core.barrier import Barrier
    from airflow_backfill_provider.core.job import BackfillJob
    from airflow_backfill_provider.core.settings import JobSettings, ResolvedUpstream
    from airflow_backfill_provider.engine.job_rows import JobRows
    from airflow_backfill_provider.engine.net_changes import MeasuredChanges
    from airflow_backfill_provider.engine.view import MaterializedView
    from airflow_backfill_provider.lake.view_identity import ViewIdentity


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """
    Where a column of the view comes from.

    :param inputs: the upstream's columns.
    :param unchanged: whether it is one of them as it is.
    """

    inputs: tuple[str, ...]
    unchanged: bool


@dataclass(frozen=True, slots=True)
class QueryLineage:
    """
    Where the view's columns come from.

    :param columns: column of the view → its origin.
    :param filtered_by: the upstream's columns that decide which rows the view has.
    """

    columns: Mapping[str, ColumnOrigin]
    filtered_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Units:
    """
    What tells the units of a view apart, for whoever compares the view with its query.

    :param order: the upstream's columns that identify a unit, with their types.
    :param outputs: the view's columns that carry these, hidden or not.
    :param placed_by: the upstream's columns that a unit's vnode is worked out from.
    :param place_outputs: the view's columns that carry these.
    """

    order: KeyOrder
    outputs: tuple[str, ...]
    placed_by: tuple[str, ...]
    place_outputs: tuple[str, ...]


class ShapedQuery(ABC):
    """A query that a shape has read; pure, and the same for the same text."""

    text: str
    """What the user wrote."""

    @property
    def has_steps(self) -> bool:
        """Whether columns may have other names inside of the query than in its upstream."""
        return False

    @abstractmethod
    def columns_of(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return those of the upstream's columns that the query may use, in the upstream's order."""

    def require_names(self, available: Sequence[str]) -> None:  # noqa: B027 - most refuse nothing
        """
        Refuse a name that means something else without a column of that name.

        :param available: the upstream's columns.
        :raises InvalidJobError: naming it.
        """

    @abstractmethod
    def render(self, relation: str, key: Sequence[str], upstream_names: Collection[str]) -> str:
        """
        Return the text that gives the view's rows, over another relation: the user's own words, never printed anew.

        :param relation: name of the relation to read instead of ``upstream``.
        :param key: the upstream's key columns.
        :param upstream_names: names that a star may stand for.
        """

    @abstractmethod
    def units(self, settings: JobSettings, *, by_key: bool) -> Units:
        """
        Return what tells the view's units apart.

        :param by_key: whether a unit's vnode is worked out from what identifies it, because the view does not carry the
            distribution key; see :meth:`carries_distribution_key`.
        """

    @abstractmethod
    def carries_distribution_key(self, settings: JobSettings) -> bool:
        """Tell whether the view's rows show the vnode that their units belong to."""

    def lineage(self, columns: Sequence[str], key: Sequence[str], upstream_names: Collection[str]) -> QueryLineage:
        """
        Return where the view's columns come from; by default it is not known.

        :param columns: the upstream's columns.
        :param key: its key columns.
        :param upstream_names: names that a star may stand for.
        """
        del columns, key, upstream_names
        return QueryLineage({}, ())


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A job's query with what rendering it takes."""

    query: ShapedQuery
    key: tuple[str, ...]
    upstream_names: frozenset[str]

    @classmethod
    def of(cls, job: BackfillJob, query: ShapedQuery, upstream: ResolvedUpstream) -> JobQuery:
        """Return a job's query over its upstream as of the job's creation."""
        return cls(query, tuple(column.column for column in job.upstream.key), upstream.names)

    @property
    def text(self) -> str:
        """What the user wrote."""
        return self.query.text

    @property
    def has_steps(self) -> bool:
        """Whether columns may have other names inside of the query than in its upstream."""
        return self.query.has_steps

    def over(self, relation: str) -> str:
        """Return the text that gives the view's rows, over a relation with the used columns."""
        return self.query.render(relation, self.key, self.upstream_names)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterContext:
    """
    What a writer works with.

    :param spark: the session.
    :param job: the definition.
    :param query: its query.
    :param job_rows: the rows that the job is about.
    :param view: the view's table.
    """

    spark: SparkSession
    job: BackfillJob
    query: JobQuery
    job_rows: JobRows
    view: MaterializedView

    def run(self, rows: DataFrame) -> DataFrame:
        """
        Run the query over some rows.

        :param rows: with the used columns among theirs.
        :raises InvalidJobError: if Spark cannot analyse the query.
        """
        from airflow_backfill_provider.engine.job_rows import column
        from airflow_backfill_provider.engine.query import run_query

        return run_query(self.spark, self.query, rows.select(*map(column, self.job_rows.columns)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """
    The changes of a window that go through to the view, looked at and not yet written.

    :param net: net changes; see :func:`~airflow_backfill_provider.engine.net_changes.net_changes`.
    :param wanted: the condition that picks them from a change feed, for a shape that looks at it itself.
    :param measured: how many there are.
    """

    net: DataFrame
    wanted: Column
    measured: MeasuredChanges


class ViewWriter(ABC):
    """
    Writes a job's view, under the transaction ids of the epoch's parts.

    Its writes are named by :mod:`airflow_backfill_provider.engine.stamps`: changes by one of ``OF_CHANGES``, a part of
    the chunk by ``snapshot_part``. So each happens once, and can be given up.
    """

    def check(self, rows: DataFrame, table_properties: Mapping[str, str]) -> None:  # noqa: B027
        """
        Refuse a query that Spark or Delta cannot take, before anything is written.

        :param rows: the upstream's newest rows.
        :param table_properties: the view's, as the job asks for them.
        :raises InvalidJobError: naming the column.
        """

    @abstractmethod
    def schema(self) -> StructType:
        """
        Return the view's columns.

        :raises InvalidJobError: if Spark cannot analyse the query.
        """

    @abstractmethod
    def write_changes(self, changes: Changes, identity: ViewIdentity, barrier: Barrier, *, repairs: bool) -> None:
        """
        Write what the changes of rows that were read before make of the view, once per epoch.

        :param repairs: whether the view may have foreign rows, which a repair removes.
        """

    @abstractmethod
    def write_part(self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier) -> None:
        """
        Write what a part of the chunk makes of the view, once per epoch; a part without a row leaves its commit, too.

        :param rows: the part's rows, with the used columns among theirs.
        """

    def check_repair(self, barrier: Barrier) -> None:  # noqa: B027
        """Fail as writing a repair's rows would."""

    @abstractmethod
    def repair(self, identity: ViewIdentity, barrier: Barrier) -> None:
        """Write the units anew that a barrier's repair names, once per epoch."""


class Shape(ABC):
    """One way in which a query makes a view of rows."""

    name: ClassVar[str]
    """What it is called."""

    @abstractmethod
    def query(self, text: str) -> ShapedQuery:
        """
        Read a query.

        :raises InvalidJobError: if it is not of this shape; with the construct that is not allowed.
        """

    def require_job(self, job: BackfillJob) -> None:  # noqa: B027 - most refuse nothing
        """
        Refuse a definition with a query of this shape that asks for something that the shape cannot do.

        :raises InvalidJobError: naming the field.
        """

    @abstractmethod
    def writer(self, context: WriterContext) -> ViewWriter:
        """Return its half on Spark, for a job's epochs."""
