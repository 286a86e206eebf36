"""The rows of joins and unions that a query groups, on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_backfill_provider.shapes.base import WriterContext
from airflow_backfill_provider.shapes.group.grouped_rows import GroupedRows, run
from airflow_backfill_provider.shapes.joined_groups.query import JoinedGroupQuery
from airflow_backfill_provider.spark.query import require_checked, run_query

_LEAD, _TOUCHED = "backfill_lead__", "backfill_units__"


@dataclass(frozen=True)
class JoinedRows(GroupedRows):
    """
    Rows of the leads of branches, and of the tables that these are joined with.

    :param lead: the rows of the upstream that leads the job, with the used columns.
    :param others: those of all others, by the names in :attr:`JobQuery.others`.
    :param names: the names of the unit columns.
    """

    context: WriterContext
    query: JoinedGroupQuery
    lead: DataFrame
    others: Mapping[str, DataFrame]
    names: tuple[str, ...]

    def groups(self) -> DataFrame:
        """Return the view's rows."""
        return run_query(self.context.spark, self.context.query, self.lead, self.others)

    def units(self) -> DataFrame:
        """Return the unit of each joined row that is grouped; a query with one unit has none here."""
        if self.query.is_global:
            return self.context.spark.createDataFrame([], StructType())
        return run(self.context, self.query.render_units(_LEAD, self._named, self.names), self._relations)

    def groups_of(self, touched: DataFrame) -> DataFrame:
        """Return the view's rows of some units, over the joined rows that belong to these."""
        if self.query.is_global:
            return self.groups()
        require_checked(self.context.spark, self.context.query, self.lead, self.others)
        text = self.query.render_slice(_LEAD, self._named, _TOUCHED, self.names)
        return run(self.context, text, {**self._relations, _TOUCHED: touched})

    def before_grouping(self, selected: str) -> DataFrame:
        """Return columns of the joined rows that the first step that groups reads."""
        return run(self.context, self.query.render_rows(_LEAD, self._named, selected), self._relations)

    @property
    def _named(self) -> dict[str, str]:
        return {name: f"backfill_other_{number}__" for number, name in enumerate(self.others)}

    @property
    def _relations(self) -> dict[str, DataFrame]:
        return {_LEAD: self.lead, **{self._named[name]: rows for name, rows in self.others.items()}}
