"""Joined rows of which only some units count, while history is read unit by unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.epoch.barrier import PinnedRange
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.shapes.group.grouped_rows import GroupedRows
from airflow_backfill_provider.shapes.joined_groups.joined_rows import JoinedRows
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.unit_places import of_units


@dataclass(frozen=True)
class RowsOfUnits(GroupedRows):
    """
    The joined rows whose units lie in some ranges.

    Each joined row is filtered by its own unit. A row of the lead may have a part in units on both sides of a position,
    and a change may take it from a unit that was read to one that was not.

    :param rows: all joined rows.
    :param placed: says where units lie.
    :param ranges: the ranges of units.
    """

    rows: JoinedRows
    placed: JobRows
    ranges: Sequence[PinnedRange]

    def groups(self) -> DataFrame:
        """Return the view's rows of these units."""
        return self.rows.groups_of(self.units().distinct())

    def units(self) -> DataFrame:
        """Return the unit of each row that is grouped."""
        return self._within(self.rows.units(), self.rows.names)

    def groups_of(self, touched: DataFrame) -> DataFrame:
        """Return the view's rows of those of some units that lie in the ranges."""
        return self.rows.groups_of(self._within(touched, self.rows.names))

    def before_grouping(self, selected: str) -> DataFrame:
        """Return columns of the joined rows that the first step that groups reads."""
        query = self.rows.query
        terms = query.units_with(()).terms
        names = self.placed.own.numbered("place", len(terms))
        units = (f"({term.text(query.text)}) AS {quote(name)}" for term, name in zip(terms, names, strict=True))
        found = self.rows.before_grouping(", ".join((selected, *units)))
        kept = [name for name in found.columns if name not in names]
        return self._within(found, names).select(*map(column, kept))

    def _within(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        return of_units(self.placed, rows, names, self.ranges)
