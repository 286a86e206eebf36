"""
Queries of groups that are cut into slices: some groups computed anew are the same groups of the whole query.

A case has an upstream before and after some changes, and queries from the grammar of the campaign ``groups``, as far as
DataFusion knows their functions. Of each query it computes the view before and after, the units that the changes touch,
and the slice of these. The view before, with the touched units replaced by the slice, must be the view after. No Spark
starts and no epoch is run, so there are many more queries than in ``groups``.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from airflow_backfill_provider.shapes.group.query import GroupQuery, check_group_query
from faults.campaign import Campaign, Outcome, Play, WrongError
from faults.groups.queries import a_query
from faults.groups.rows import MovingRows
from faults.groups.tables import Table, a_table, an_upstream, values_of
from faults.groups.truth import Row, differences
from faults.groups.words import SPARK
from faults.shapes.case import Case, Column
from faults.shapes.rows import Change, as_arrow
from faults.shapes.truth import values_of_arrow

QUERIES = 10
"""The queries of a case."""

WORDS = SPARK.with_functions(
    """
    avg bool_and bool_or cast coalesce count date_trunc lower length max median min nullif substr sum upper
    """.split()
)
"""The functions that DataFusion computes alike in a slice and in the whole; its floor cuts large decimals in one."""

CHANGES = ("column", "column", "mixture", "append", "delete", "update", "empty", "return")
BEFORE, AFTER, OLD, NEW, TOUCHED = "rows_before", "rows_after", "old_images", "new_images", "touched_units"


class UnknownQueryError(Exception):
    """DataFusion cannot compute a query at all."""


class Slicing:
    """
    One upstream before and after a change.

    :param upstream: the upstream.
    :param change: the change.
    :param folder: an empty folder.
    """

    def __init__(self, upstream: Case, change: Change, folder: Path) -> None:
        self._folder = folder
        self._names = [column.name for column in upstream.columns]
        self._key = [name for name, _ in upstream.key]
        sides = {
            BEFORE: change.before,
            AFTER: change.after,
            OLD: [old for old, _ in change.pairs if old is not None],
            NEW: [new for _, new in change.pairs if new is not None],
        }
        self._rows = {name: as_arrow(upstream.columns, rows) for name, rows in sides.items()}
        self._tables = {name: self._table(name, rows) for name, rows in self._rows.items()}

    def require_same(self, query: GroupQuery) -> None:
        """
        Compare a query's view, whose touched units are replaced, with the whole query.

        :raises UnknownQueryError: if DataFusion does not compute the whole query.
        :raises WrongError: if they differ.
        """
        try:
            before, after = (self._computed(query.render(name, (), self._names)) for name in (BEFORE, AFTER))
        except Exception as error:
            raise UnknownQueryError(str(error)) from error
        units = query.units_with(self._names)
        names = [f"touched_{number}" for number in range(len(units.terms))]
        # As in an epoch, an image has the columns that the query uses, and the rows have those and the key.
        used = query.columns_of(self._names)
        tables = {name: self._table(f"{name}_used", self._rows[name].select(used)) for name in (OLD, NEW)}
        images = [self._computed(query.render_units(name, names, self._names), tables) for name in (OLD, NEW)]
        touched = pa.concat_tables(map(_nullable, images))
        read = self._rows[AFTER].select([name for name in self._names if name in {*used, *self._key}])
        tables = {AFTER: self._table(f"{AFTER}_used", read), TOUCHED: self._table(TOUCHED, touched)}
        fresh = values_of_arrow(self._computed(query.render_slice(AFTER, TOUCHED, names, self._names), tables))
        held = [name.lower() for name in before.column_names]
        places = [held.index(name.lower()) for name in units.outputs]
        gone = {repr(unit) for unit in values_of_arrow(touched)}
        stays = [row for row in values_of_arrow(before) if repr(_unit(row, places)) not in gone]
        missing, more = differences(values_of_arrow(after), [*stays, *fresh])
        if missing or more:
            raise WrongError(f"missing {missing[:2]!a}, unexpected {more[:2]!a}: {query.text!a}")

    def _table(self, name: str, rows: pa.Table) -> DeltaTable:
        path = self._folder / name
        shutil.rmtree(path, ignore_errors=True)
        write_deltalake(path, _nullable(rows))
        return DeltaTable(path)

    def _computed(self, text: str, tables: Mapping[str, DeltaTable] | None = None) -> pa.Table:
        engine = QueryBuilder()
        for name, table in (tables or self._tables).items():
            engine.register(name, table)
        return pa.table(engine.execute(_translated(text)))


def _nullable(rows: pa.Table) -> pa.Table:
    """Return rows whose columns may be null, which the columns of some expressions may not."""
    return rows.cast(pa.schema([field.with_nullable(nullable=True) for field in rows.schema]))


def _translated(text: str) -> str:
    """Return a text with the quotes of DataFusion, and with its null-safe equality, which binds less than AND."""
    text = text.replace("AS backfill_touched ON (", "AS backfill_touched ON ((").replace("`", '"')
    text = re.sub(r"<=> (backfill_touched\.\S+) AND \(", r"IS NOT DISTINCT FROM \1) AND ((", text)
    return re.sub(r"<=> (backfill_touched\.\S+)", r"IS NOT DISTINCT FROM \1)", text)


def _unit(row: Row, places: Sequence[int]) -> Row:
    return tuple(row[place] for place in places)


def play(random: random.Random, folder: Path) -> Outcome:
    """Play a case."""
    table = _comparable(a_table(random))
    upstream = an_upstream(random, table)
    rows = MovingRows(upstream, values_of(table))
    change = rows.change(random.choice(CHANGES), rows.begin(upstream.rows))
    slicing = Slicing(upstream, change, folder)
    compared, unknown = 0, 0
    for _ in range(QUERIES):
        query = check_group_query(a_query(random, table, WORDS))
        if query.is_global:
            continue
        try:
            slicing.require_same(query)
            compared += 1
        except UnknownQueryError:
            unknown += 1
    return Outcome(checks=compared, about=f"{compared} queries compared, {unknown} unknown to DataFusion")


def _comparable(table: Table) -> Table:
    """
    Return a table without types that DataFusion treats otherwise than Spark.

    Its maximum of NaN and other numbers depends on their order, and its length of bytes is that of a text.
    """

    def exact(columns: Sequence[Column]) -> tuple[Column, ...]:
        return tuple(replace(one, type="long") if one.type in {"float", "double", "binary"} else one for one in columns)

    return Table(table.key, exact(table.groups), exact(table.values))


@contextmanager
def _stage() -> Iterator[Play]:
    with tempfile.TemporaryDirectory(prefix="backfill-faults-") as root:
        yield lambda _, random: play(random, Path(root))


CAMPAIGN = Campaign(
    name="slices",
    about="queries of groups cut into slices: the touched groups, computed anew, are those of the whole query",
    quick=100,
    full=3_000,
    checks="queries",
    stage=_stage,
)
