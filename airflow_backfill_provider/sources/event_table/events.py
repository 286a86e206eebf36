"""
Events on Spark: the row that each one is about, their order, and the last one of each key.

Events may come out of order and several times, so what counts is an order that the events themselves have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.columns import OwnColumns, own_columns
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.refusals import unusable_row

UPDATE, DELETE = "u", "d"
"""Kinds of events, by Debezium's letters."""


class KeyedEvents(ABC):
    """Events of one table."""

    key: Sequence[str]
    """The key columns."""

    @property
    @abstractmethod
    def types(self) -> Mapping[str, str]:
        """The columns of a row → type, as Delta writes it."""

    @abstractmethod
    def of(self, stored: DataFrame, *extra: Column) -> DataFrame:
        """
        Return the events of rows of the table. Any row that is no complete event fails when it is read.

        :param stored: rows of the table of events.
        :param extra: other columns to keep.
        :returns: the columns of a row (of a delete, as far as they are known), :attr:`kind`, :attr:`order` and further
            ones of the package's own.
        """

    @property
    @abstractmethod
    def compared(self) -> Mapping[str, Column]:
        """What :meth:`problem` compares besides the order, by the name of a field."""

    @abstractmethod
    def problem(self, newest: Column) -> Column:
        """
        Return what is wrong with an event that comes after others of its key.

        :param newest: :attr:`stamp` of that one of the events before it which is last in order.
        :returns: a text, or null.
        """

    @property
    def stamp(self) -> Column:
        """A struct of ``order`` and the fields of :attr:`compared`, by which events of a key are ordered."""
        compared = (value.alias(name) for name, value in self.compared.items())
        return F.struct(F.col(self.order).alias("order"), *compared)

    def sound(self, newest: Column, wanted: Column) -> Column:
        """Return the condition for the events to keep, which fails where :meth:`problem` says that one is wrong."""
        problem = self.problem(newest)
        return F.when(problem.isNotNull(), unusable_row(problem).cast("boolean")).otherwise(wanted)

    def with_known(self, events: DataFrame) -> DataFrame:
        """Add what :meth:`completed` needs of earlier events; by default nothing."""
        return events

    def completed(self, events: DataFrame, matters: Column) -> DataFrame:
        """
        Replace values that an event leaves out; by default none.

        :param events: with the columns of :meth:`with_known`, which are left out of the result.
        :param matters: the condition that an unknown value fails the epoch.
        """
        del matters
        return events

    @property
    def own(self) -> OwnColumns:
        """The names of the package's own columns."""
        return own_columns(self.types)

    @property
    def kind(self) -> str:
        """Name of the column with the kind of the event."""
        return self.own.named("kind")

    @property
    def order(self) -> str:
        """Name of the column that orders the events of a key."""
        return self.own.named("order")

    @property
    def in_order(self) -> WindowSpec:
        """The events of each key, in order."""
        return Window.partitionBy(*map(column, self.key)).orderBy(self.order)

    def last(self, events: DataFrame) -> DataFrame:
        """
        Return the last event of each key.

        :param events: as of :meth:`of`, and all about rows.
        :returns: the same columns, with the values that an event leaves out.
        """
        is_last = self.own.named("is_last")
        ordered = self.with_known(events).withColumn(is_last, F.lead(F.lit(1)).over(self.in_order).isNull())
        return self.completed(ordered.filter(is_last), F.col(self.kind) != DELETE).drop(is_last)
