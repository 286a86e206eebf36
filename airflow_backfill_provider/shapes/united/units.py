"""The units of a union as rows on Spark: from the keys of a lead to the units of its branches, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.shapes.joined.units import UnitColumn
from airflow_backfill_provider.shapes.united.query import BRANCH_TYPE, UnionQuery
from airflow_backfill_provider.sources.shared.by_key import column


@dataclass(frozen=True, slots=True)
class UnionUnits:
    """The units of one job's view: the number of a branch, and the key of a row of its lead."""

    query: UnionQuery

    @property
    def outputs(self) -> tuple[str, ...]:
        """The view's columns that identify a unit."""
        return self.query.row_columns.unit

    def of_keys(self, lead: str, keys: DataFrame) -> DataFrame:
        """
        Return the units of rows of a lead, in all branches that it leads.

        :param lead: the upstream.
        :param keys: the columns of its key, and maybe others.
        :returns: the view's columns of a unit.
        """
        units = [keys.select(*self._values(branch)) for branch in self._branches(lead)]
        return reduce(DataFrame.unionAll, units)

    def keys_of(self, lead: str, units: DataFrame) -> DataFrame:
        """
        Return the keys of a lead that units have, each once; units of other leads have none.

        :param units: the view's columns of a unit.
        :returns: the columns of the lead's key.
        """
        keys = [
            units.filter(column(self.query.row_columns.branch) == branch).select(
                *(
                    column(found.output).alias(source.column)
                    for found in self._columns
                    if (source := found.sources[branch]) is not None
                )
            )
            for branch in self._branches(lead)
        ]
        return reduce(DataFrame.unionAll, [found.select(*map(column, keys[0].columns)) for found in keys]).distinct()

    @property
    def _columns(self) -> tuple[UnitColumn, ...]:
        return tuple(found for found in self.query.row_columns.columns if found.of_unit)

    def _branches(self, lead: str) -> Iterator[int]:
        """Yield the numbers of the branches that an upstream leads."""
        for number, tree in enumerate(self.query.resolution.trees):
            if tree.lead.relation == lead:
                yield number

    def _values(self, branch: int) -> Iterator[Column]:
        yield F.lit(branch).cast(BRANCH_TYPE).alias(self.query.row_columns.branch)
        for found in self._columns:
            source = found.sources[branch]
            value = F.lit(None) if source is None else column(source.column)
            yield value.cast(found.type).alias(found.output)
