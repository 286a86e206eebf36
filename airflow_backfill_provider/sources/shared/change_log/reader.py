"""
Reads changes from a change log on Spark.

A change log has the changes of a transaction one after the other, as texts. A source has them net per key and
transaction, typed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.sources.reader import CHANGE_OFFSET, CHANGE_TYPE
from airflow_backfill_provider.sources.shared.balanced import all_of, any_of
from airflow_backfill_provider.sources.shared.change_log.changes import UNREADABLE, LoggedKind
from airflow_backfill_provider.sources.shared.change_log.dialect import Dialect
from airflow_backfill_provider.sources.shared.change_log.table import ChangeLog
from airflow_backfill_provider.sources.shared.refusals import refused_column, unsupported_value, unusable_row

_EVENT, _NUMBER, _ROW, _LEAVES = "__event", "__number", "__row", "__leaves"
_STAYS = "__stays"
_FIRST, _LAST, _LAST_OF_ALL = "__is_first", "__is_last", "__is_last_of_all"

_PREIMAGE, _POSTIMAGE = "update_preimage", "update_postimage"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLogReader:
    """
    Reads the changes of one table.

    :param table: the table's id in the log.
    :param types: column → type, as Delta writes it.
    :param key: the key columns.
    :param apart: the columns whose unchanged values the database may leave out.
    :param dialect: how the database writes values.
    """

    spark: SparkSession
    log: ChangeLog
    table: str
    types: Mapping[str, str]
    key: Sequence[str]
    apart: frozenset[str]
    dialect: Dialect

    def changes(self, after: int, up_to: int) -> DataFrame:
        """
        Return the changes in ``(after, up_to]``, at most two per key and transaction.

        :raises ChangeFeedGapError: if the log does not have all of them.
        :returns: all columns, and those of :meth:`SourceReader.changes`. Of the old row, only the columns that the
            database logs are known; the others are null.
        """
        events = self._events(after, up_to)
        keys = [F.col(_ROW)[name] for name in self.key]
        in_transaction = Window.partitionBy(*keys, CHANGE_OFFSET).orderBy(_NUMBER)
        of_key = Window.partitionBy(*keys).orderBy(CHANGE_OFFSET, _NUMBER)
        ordered = events.withColumns(
            {
                _FIRST: F.lag(F.lit(1)).over(in_transaction).isNull(),
                _LAST: F.lead(F.lit(1)).over(in_transaction).isNull(),
                _LAST_OF_ALL: F.lead(F.lit(1)).over(of_key).isNull(),
                **{
                    self._filled(name): F.last(_known(name), ignorenulls=True).over(of_key)
                    for name in sorted(self.apart)
                },
            }
        )
        kind = F.col(CHANGE_TYPE)
        is_old = kind.isin("delete", _PREIMAGE)
        kept = ordered.filter((F.col(_FIRST) & is_old) | F.col(_LAST)).filter((kind != _PREIMAGE) | F.col(_FIRST))
        # A view never has a row with such a key. So if the row is gone, nothing has happened.
        has_none = [self.dialect.has_no_key(F.col(_ROW)[name], self.types[name]) for name in self.key]
        kept = kept.filter(self._matters | ~any_of(has_none))
        return kept.select(*(self._column(name) for name in self.types), CHANGE_TYPE, CHANGE_OFFSET)

    def _events(self, after: int, up_to: int) -> DataFrame:
        """Return a row for each row that came or went, in order of the number within the transaction."""
        truncated = self.log.queries.truncated_within(self.table, after, up_to)
        # A clean-up while Spark reads must not take rows away, nor a TRUNCATE that was just looked for.
        version = self.log.queries.version_without_gap(self.table, after, up_to)
        log = self.spark.read.format("delta").option("versionAsOf", version).load(self.log.location)
        wanted = (F.col("offset") > after) & (F.col("offset") <= up_to) & (F.col("table") == self.table)
        if truncated is not None:
            offset, number = truncated
            wanted &= (F.col("offset") > offset) | ((F.col("offset") == offset) & (F.col("number") > number))
        kind, old, new = F.col("kind"), F.col("old"), F.col("new")
        events = (
            F.when(kind == LoggedKind.INSERT.value, F.array(_event("insert", 0, new)))
            .when(kind == LoggedKind.DELETE.value, F.array(_event("delete", 0, old)))
            .when(kind == LoggedKind.UPDATE.value, F.array(_event(_PREIMAGE, 0, old), _event(_POSTIMAGE, 1, new)))
        )
        keeps_key = all_of([old[name].eqNullSafe(new[name]) for name in self.key])
        stays = (kind == LoggedKind.UPDATE.value) & keeps_key
        return (
            log.filter(wanted)
            .select(
                F.col("offset").alias(CHANGE_OFFSET),
                F.col("number"),
                F.coalesce(stays, F.lit(False)).alias(_STAYS),
                F.explode(events).alias(_EVENT),
            )
            .select(
                CHANGE_OFFSET,
                (F.col("number") * 2 + F.col(f"{_EVENT}.second")).alias(_NUMBER),
                F.col(f"{_EVENT}.kind").alias(CHANGE_TYPE),
                F.col(f"{_EVENT}.row").alias(_ROW),
                (F.col(f"{_EVENT}.kind").isin("delete", _PREIMAGE) & ~F.col(_STAYS)).alias(_LEAVES),
            )
        )

    def _column(self, name: str) -> Column:
        """
        Return a column with its type.

        An unknown value fails only if no later change replaced the row; an old row without its key always does.
        """
        text = F.col(_ROW)[name]
        if name in self.key:
            is_old = F.col(CHANGE_TYPE).isin("delete", _PREIMAGE)
            problem = self.dialect.without_key.replace("{name}", name)
            text = F.when(
                is_old & ~F.map_contains_key(_ROW, F.lit(name)), unusable_row(problem).cast("string")
            ).otherwise(text)
            return self.dialect.typed_key(text, self.types[name], name, self._matters).alias(name)
        if name in self.apart:
            filled = F.col(self._filled(name)).getField("text")
            is_known = F.coalesce(F.col(self._filled(name)).getField("is_known"), F.lit(False))
            is_unknown = self._matters & ~is_known
            text = F.when(is_unknown, refused_column(self.dialect.unchanged, name).cast("string")).otherwise(
                F.when(F.map_contains_key(_ROW, F.lit(name)), text).otherwise(filled)
            )
        if self.types[name] == "string":
            is_unreadable = F.coalesce(text == UNREADABLE, F.lit(False))
            text = F.when(is_unreadable & self._matters, unsupported_value(name).cast("string")).otherwise(text)
        return self.dialect.typed(text, self.types[name], name, self._matters).alias(name)

    @property
    def _matters(self) -> Column:
        """Whether an event leaves the row of its key, so that its values count. Nobody reads the others."""
        return F.col(_LAST_OF_ALL) & F.col(CHANGE_TYPE).isin("insert", _POSTIMAGE)

    def _filled(self, name: str) -> str:
        """Return the name of what is known of a column; with its number, because a name may have dots and quotes."""
        return f"__filled_{list(self.types).index(name)}"


def _event(kind: str, second: int, row: Column) -> Column:
    return F.struct(F.lit(kind).alias("kind"), F.lit(second).alias("second"), row.alias("row"))


def _known(name: str) -> Column:
    """
    Return what an event says about a column's text: it, if it is of a new row that has it; otherwise null.

    Once a row has left the key, nothing is known: the next one may come from another key, with a value of its own.
    """
    has_it = F.col(CHANGE_TYPE).isin("insert", _POSTIMAGE) & F.map_contains_key(_ROW, F.lit(name))
    nothing = F.struct(F.lit(False).alias("is_known"), F.lit(None).cast("string").alias("text"))
    known = F.struct(F.lit(True).alias("is_known"), F.col(_ROW)[name].alias("text"))
    return F.when(F.col(_LEAVES), nothing).when(has_it, known)
