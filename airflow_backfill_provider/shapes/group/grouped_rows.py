"""
The rows that a query groups on Spark, and what the user's text makes of them.

Slices and folds ask for groups, for units and for columns of rows. Which tables the rows come from does not matter to
them: a :class:`GroupInput` gives the rows that an epoch needs, of one upstream or of several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.shapes.base import WriterContext
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.group.grouping_query import GroupingQuery
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.named_relations import sql_over
from airflow_backfill_provider.spark.spark_errors import query_errors

_SAMPLE = 1_000
"""The rows of each upstream with which the split query is compared with the whole one at creation."""


class GroupedRows(ABC):
    """Rows of the upstreams that a query reads."""

    @abstractmethod
    def groups(self) -> DataFrame:
        """
        Return the view's rows: all groups, with the hidden columns.

        :raises InvalidJobError: if Spark cannot analyse the query.
        """

    @abstractmethod
    def units(self) -> DataFrame:
        """Return the unit of each row that is grouped, in the columns :attr:`GroupInput.names`."""

    @abstractmethod
    def groups_of(self, touched: DataFrame) -> DataFrame:
        """Return the view's rows of some units: the groups over the rows that belong to these."""

    @abstractmethod
    def before_grouping(self, selected: str) -> DataFrame:
        """
        Return columns of the rows that the first step that groups reads.

        :param selected: the list of columns in SQL, as this step may write it.
        """


@dataclass(frozen=True, slots=True)
class Images:
    """
    The rows that an epoch's changes take away from groups and bring to them.

    A row that stays as it is may be on both sides.

    :param old: the rows that go, as of the window's begin.
    :param new: the rows that come, as of its end.
    :param reads_all: whether all rows of the upstream are read to find them.
    """

    old: GroupedRows
    new: GroupedRows
    reads_all: bool = False


class GroupInput(ABC):
    """
    Gives the rows that a view of groups is computed from.

    :param context: the objects that the job's writer works with.
    :param query: the query; the context's own, or one with other hidden columns.
    """

    relies_on_key: ClassVar[bool] = False
    """Whether it takes the rows of the upstream, or of the one that leads, for different ones by their keys."""

    def __init__(self, context: WriterContext, query: GroupingQuery) -> None:
        self.context = replace(context, query=replace(context.query, query=query))
        self.query = query
        self.units = query.units_with(context.query.upstream_names)
        self.names = tuple(context.job_rows.own.numbered("touched", len(self.units.terms)))
        """The names of the columns of relations with units."""

    def with_state(self, state: Mapping[str, str]) -> Self:
        """Return the same for a query with other hidden columns that keep the state of units."""
        return type(self)(self.context, self.query.with_state(state))

    @abstractmethod
    def empty(self) -> GroupedRows:
        """Return no rows."""

    @abstractmethod
    def sample(self, rows: DataFrame) -> AbstractContextManager[GroupedRows]:
        """
        Give some rows as of the job's creation, the same ones for the time of a block.

        :param rows: rows of the upstream, or of the one that leads.
        """

    @abstractmethod
    def read_set(self, barrier: Barrier) -> GroupedRows:
        """Return all rows that were read before an epoch, as of the end of its window."""

    @abstractmethod
    def chunk(self, rows: DataFrame, further: Mapping[str, DataFrame], part: int, barrier: Barrier) -> GroupedRows:
        """
        Return the rows of a part of history.

        :param rows: its rows of the upstream, or of the one that leads.
        :param further: those of the upstreams that lead further branches, by their names.
        :param part: the number of the part of the barrier's chunk.
        """

    def placed_changes(self, changes: Changes, barrier: Barrier) -> AbstractContextManager[DataFrame]:
        """Give the net changes of rows by their units; see :meth:`ViewWriter.placed_changes`."""
        del changes, barrier
        raise NotImplementedError(f"{type(self).__name__} has units that depend on one upstream")

    @abstractmethod
    def images(self, changes: Changes, barrier: Barrier) -> AbstractContextManager[Images]:
        """Give the rows that changes take away and bring, for the time of a block."""


@contextmanager
def sampled(rows: DataFrame) -> Iterator[DataFrame]:
    """Give some of the rows, the same ones for the time of a block."""
    kept = rows.limit(_SAMPLE).persist(KEPT)
    try:
        yield kept
    finally:
        kept.unpersist()


def run(context: WriterContext, text: str, relations: Mapping[str, DataFrame]) -> DataFrame:
    """
    Run SQL over relations.

    :param relations: the name of a relation, which the text has in backticks → its rows.
    :raises InvalidJobError: if Spark cannot analyse it.
    """
    with query_errors():
        return sql_over(context.spark, text, {f"`{name}`": rows for name, rows in relations.items()})
