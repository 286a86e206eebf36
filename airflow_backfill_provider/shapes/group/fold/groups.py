"""Runs a fold on Spark: the new rows of the groups that an epoch touches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.shapes.group.fold.folding import Fold
from airflow_backfill_provider.shapes.group.fold.statements import changes, moved, of_rows, shown
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.named_relations import sql_over
from airflow_backfill_provider.spark.small_changes import broadcast_if_few, in_one_task_if_few, is_fixed_width
from airflow_backfill_provider.spark.touched_units import TouchedUnits

_RELATION = "`backfill {}`"
"""What stands for a relation in SQL."""

Query = Callable[[DataFrame, Sequence[str]], DataFrame]


@dataclass(frozen=True, slots=True)
class TouchedGroups:
    """
    The groups that an epoch touches.

    :param units: their units, each once; ``None`` if all rows are one group.
    :param old: the rows that the view has of them.
    :param fresh: the rows that it shall have: units, results and hidden columns. A group that is gone has none.
    :param lost: the units of the groups that were read again.
    :param number_lost: how many of them were read again.
    """

    units: TouchedUnits | None
    old: DataFrame
    fresh: DataFrame
    lost: DataFrame
    number_lost: int

    @property
    def number(self) -> int:
        """How many groups they are."""
        return 1 if self.units is None else self.units.number


@dataclass(frozen=True, slots=True)
class FoldedStep:
    """
    A step that is folded, over any rows.

    :param fold: its fold.
    :param whole: runs the user's step over rows, with more items at the end of its list of columns.
    :param grouped: runs the user's step over rows, with its units and some items as its list of columns.
    :param finished: makes the view's rows of units, results and hidden columns; by default these are the view's rows.
    """

    fold: Fold
    whole: Query
    grouped: Query
    finished: Callable[[DataFrame], DataFrame] = lambda rows: rows

    def of_rows(self, rows: DataFrame) -> DataFrame:
        """Return the groups of rows, with their hidden columns."""
        return self.whole(rows, of_rows(self.fold))

    @contextmanager
    def touched(
        self,
        old: DataFrame,
        new: DataFrame,
        base: Callable[[TouchedUnits | None], DataFrame],
        read: Callable[[DataFrame], DataFrame],
    ) -> Iterator[TouchedGroups]:
        """
        Give the groups that an epoch touches; they are kept until the end of the block.

        :param old: the images that go: of each changed row that was read before, as of the window's beginning.
        :param new: the images that come: of each changed row that was read before, as of the window's end, and those of
            the chunk.
        :param base: returns the view's rows of some units, or all, at the version that the previous epoch left.
        :param read: returns the rows of some units that were read until the end of the epoch, as of its window's end.
        """
        with ExitStack() as kept:
            delta, units = kept.enter_context(_kept(self._delta(old, new))), None
            if self._units:
                units = TouchedUnits.of(delta.select(*self._units), self.fold.step.units)
                delta = in_one_task_if_few(delta, units.number, units.value_bytes)
            # The view is read here and not again: what its groups have become is compared with these rows.
            held = kept.enter_context(_kept(base(units)))
            state, number_lost = self._moved(delta, held, units), 0
            if self.fold.may_lose:
                state = kept.enter_context(_kept(state))
                number_lost = state.filter(column(self.fold.is_lost)).count()
            lost = state.filter(column(self.fold.is_lost)).select(*self._units)
            fresh = self.finished(_run(shown(self.fold, _RELATION.format("state")), state=state))
            if number_lost:
                fresh = fresh.unionByName(self.of_rows(read(lost)))
            yield TouchedGroups(units, held, fresh, lost, number_lost)

    @property
    def _units(self) -> list[Column]:
        return [column(unit) for unit in self.fold.step.units]

    def _delta(self, old: DataFrame, new: DataFrame) -> DataFrame:
        """Return the changes of the touched groups."""
        signed = [images.withColumn(self.fold.sign, F.lit(sign)) for images, sign in ((old, -1), (new, 1))]
        return self.grouped(signed[0].unionByName(signed[1]), changes(self.fold))

    def _moved(self, delta: DataFrame, held: DataFrame, units: TouchedUnits | None) -> DataFrame:
        """Return the new state of the touched groups."""
        base = held.select(*self._units, *(column(state.name) for state in self.fold.columns))
        if units is not None and all(is_fixed_width(kind) for kind in self._state_types(base)):
            base = broadcast_if_few(base, units.number, units.value_bytes)
        text = moved(self.fold, _RELATION.format("delta"), _RELATION.format("base"))
        return _run(text, delta=delta, base=base)

    def _state_types(self, base: DataFrame) -> list[str]:
        types = TableSchema.of(base.schema.json()).types
        return [types[state.name] for state in self.fold.columns]


@contextmanager
def _kept(rows: DataFrame) -> Iterator[DataFrame]:
    """Keep rows until the end of the block."""
    rows.persist(KEPT)
    try:
        yield rows
    finally:
        rows.unpersist()


def _run(text: str, **relations: DataFrame) -> DataFrame:
    spark = next(iter(relations.values())).sparkSession
    return sql_over(spark, text, {_RELATION.format(name): rows for name, rows in relations.items()})
