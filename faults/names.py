"""
Names and texts that try to break out of their quotes, each read back by Spark or DataFusion.

Spark reads names of columns and text literals, DataFusion the conditions on control tables. A case has a hundred names
or texts.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.job.sql import text_literal as spark_literal
from airflow_backfill_provider.lake.files.rows import text_literal
from airflow_backfill_provider.shapes.row.query import check_query
from faults.campaign import Campaign, Outcome, Play, WrongError
from faults.spark import spark_session

NAMES = 100

_PIECES = [
    *"`'\"\\;-/*#${}()[]<>,.:=%_ \t\n",
    *("``", "''", "\\'", "\\`", "--", "/*", "*/", "${env:HOME}", "${spark:spark.master}", "{rows}", "{{", "}}", "%s"),
    *("` FROM x; DROP TABLE y --", "' OR 1 = 1 --", "\\u0027", "\\x60", "&#39;", "\u2019", "\u02bc", "\uff40"),
    *("a", "B", "1", "select", "upstream", "ä", "é", "\u0301", "ß", "İ", "中", "🙂", "\u200b", "\u00a0"),
]


def a_name(random: random.Random) -> str:
    """Return a name that consists of a few pieces."""
    return "".join(random.choice(_PIECES) for _ in range(random.randint(1, 8)))


def _require_same(what: str, wanted: list[str], found: list[str]) -> None:
    for name, other in zip(wanted, found, strict=True):
        if name != other:
            raise WrongError(f"{what}: {name!r} became {other!r}")


def _as_columns(spark: SparkSession, names: list[str]) -> None:
    """Name columns, and read them by their names, also through the query that a job runs."""
    made = spark.sql("SELECT " + ", ".join(f"{i} AS {quote(name)}" for i, name in enumerate(names)))
    _require_same("a column", names, made.columns)
    for i, name in enumerate(names[:10]):
        query = check_query(f"SELECT {quote(name)} AS found, '{{{{}}}} {{rows}}' AS text FROM upstream")
        text = query.render("the_rows", [name]).replace("{", "{{").replace("}", "}}").replace("the_rows", "{rows}")
        row = spark.sql(text, rows=made.select(made[quote(name)])).collect()[0]
        if (row["found"], row["text"]) != (i, "{{}} {rows}"):
            raise WrongError(f"a query of {name!r} gives {row}")


def _as_literals(spark: SparkSession, names: list[str]) -> None:
    row = spark.sql("SELECT array(" + ", ".join(map(spark_literal, names)) + ") AS texts").collect()[0]
    _require_same("a text", names, row["texts"])


def _as_conditions(table: Path, names: list[str]) -> None:
    """Find each of some rows by its text."""
    wanted = sorted(set(names))
    write_deltalake(str(table), pa.table({"text": wanted}), mode="overwrite")
    reader = QueryBuilder().register("control", DeltaTable(str(table)))
    for name in wanted[:10]:
        found = pa.table(reader.execute(f"SELECT text FROM control WHERE text = {text_literal(name)}").read_all())
        _require_same("a condition", [name], found.column("text").to_pylist())


@contextmanager
def _stage() -> Iterator[Play]:
    with spark_session() as spark, tempfile.TemporaryDirectory(prefix="backfill-faults-") as folder:

        def play(_: int, random: random.Random) -> Outcome:
            names = list({name.lower(): name for name in (a_name(random) for _ in range(NAMES))}.values())
            _as_columns(spark, names)
            _as_literals(spark, names)
            _as_conditions(Path(folder, "texts"), names)
            return Outcome(checks=len(names))

        yield play


CAMPAIGN = Campaign(
    name="names",
    about="names and texts of quotes, comments, variables and braces: Spark and DataFusion read them back unchanged",
    quick=105,
    full=1_050,
    checks="names",
    stage=_stage,
)
