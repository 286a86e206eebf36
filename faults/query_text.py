"""
Texts of queries that try to hide SQL from the check: comments, hints, quotes, escapes and unusual blanks.

A case has two hundred texts. Spark's own lexer cuts each text that is not refused, and its own parser reads each query
that is accepted, as it would run: the tokens must be the checked ones, and the query must read one relation and call
allowed functions alone. Some of the accepted queries are planned, too.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.spark_tokens import TokenKind, spark_tokens
from airflow_backfill_provider.shapes.functions import ROW_FUNCTIONS
from airflow_backfill_provider.shapes.job_query import JobQuery
from airflow_backfill_provider.shapes.row.query import RowQuery, check_query
from airflow_backfill_provider.spark.query import run_query
from airflow_backfill_provider.spark.session import prepare_session
from faults.campaign import Campaign, Outcome, Play, WrongError
from faults.spark import spark_session

TEXTS = 200
PLANNED = 4
"""How many accepted queries of a case are planned."""

_COMMENTS = [*"-*/+!\\", "--", "/*", "*/", "/*+", "/**/", "/*/", "-- ", "-- \\\n", "-- \\\r\n", "/*+ A(1) */"]
_BLANKS = [*" \n\r\t\v\f\x1c\x00\u00a0\u0085\u1680\u2003\u2028\u2029\u200b\u3000\ufeff", "\r\n", "\\\n"]
_QUOTES = [*"'\"`", "''", '""', "``", "\\'", '\\"', "\\\\", "r'", 'R"', "x'", "n'", "$$", "'a'", '"a"', "`a`"]
_SIGNS = [*"$#@?:;,.()[]{}<>=!|&^~%", "||", "|>", "=>", "->", "::", ">>", "<=>", "{{", "%}", "${a}", ":a"]
_WORDS = ["a", "r", "x", "1", "1L", "1.", ".5", "1e5", "1.e", "1BD", "0x1F", "1_0", "é", "中", "ı", "ſ", "\u0301", "🙂"]
_HIDDEN = [
    ", (SELECT max(value) FROM text.`/etc/passwd`) AS leak ",
    ", reflect('java.lang.System', 'getProperty', 'user.dir') AS leak ",
    " AND EXISTS (SELECT 1 FROM text.`/etc/passwd`) ",
    " TRANSFORM (id) USING 'cat' AS (id) ",
    " UNION ALL SELECT 1, 'a' ",
    ", rand() AS leak ",
]
_PIECES = (_COMMENTS, _BLANKS, _QUOTES, _SIGNS, _WORDS)
_FRAMES = (
    "SELECT id,{}upper(t){}AS x{}FROM upstream{}WHERE{}id > 1{}",
    "SELECT{}id,{}'a'{}, t{}FROM{}upstream{}",
    "FROM upstream{}|> EXTEND{}id + 1 AS y{}|> SELECT{}y{}",
    "SELECT {}\"b\"{}, `t`{}, r'c'{}FROM upstream{}",
)
_READS_OTHERS = re.compile(
    r"\.(\w*Subquery|Exists|ListQuery|\w*ScriptTransformation|Union|Join|LateralJoin|\w*TableValuedFunction)$"
)


def a_text(random: random.Random) -> str:
    """Return a text of pieces, or a query with such pieces between its words."""
    if random.random() < 0.3:
        return _pieces(random, 8)
    frame = random.choice(_FRAMES)
    return frame.format(*(_gap(random) for _ in range(frame.count("{}"))))


def _gap(random: random.Random) -> str:
    """Return what stands between two words: mostly a blank, at times a comment that hides something from one reader."""
    if random.random() < 0.6:
        return " "
    hidden = random.choice(_HIDDEN) if random.random() < 0.6 else ""
    return f" {_pieces(random, 3)}{hidden}{_pieces(random, 3)} "


def _pieces(random: random.Random, most: int) -> str:
    groups = random.choices(_PIECES, (6, 3, 3, 1, 1), k=random.randint(0, most))
    return "".join(random.choice(group) for group in groups)


class Judge:
    """Spark's lexer and parser, and a relation."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        jvm: Any = spark._jvm  # noqa: SLF001 - the judge is Spark's own parser
        self._parsers = jvm.org.apache.spark.sql.catalyst.parser
        self._streams = jvm.org.antlr.v4.runtime.CharStreams
        self._parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
        self.rows: DataFrame = spark.createDataFrame([(1, "a"), (2, "b")], "id BIGINT, t STRING")

    def tokens(self, text: str) -> list[tuple[int, int]]:
        """Return the positions of a text's tokens, without hidden ones."""
        lexer = self._parsers.SqlBaseLexer(self._parsers.UpperCaseCharStream(self._streams.fromString(text)))
        lexer.removeErrorListeners()
        return [
            (token.getStartIndex(), token.getStopIndex() + 1)
            for token in lexer.getAllTokens()
            if token.getChannel() == 0
        ]

    def parsed(self, sql: str) -> list[dict[str, Any]] | None:
        """Return the nodes of a query's plan and expressions as Spark parses it; ``None`` if it does not."""
        try:
            text = self._parser.parsePlan(sql).toJSON()
        except PySparkException:
            return None
        return list(_nodes(json.loads(text)))

    def plan(self, query: RowQuery) -> None:
        """Check the plan of an accepted query, and that it runs."""
        try:
            run_query(self._spark, JobQuery(query, ("id",), frozenset({"id", "t"})), self.rows)
        except InvalidJobError as error:
            if "Spark's plan of it" in str(error):
                raise WrongError(f"{query.text!r} was accepted, but: {error}") from None


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every node in the JSON of a plan."""
    if isinstance(value, dict):
        if "class" in value:
            yield value
        for inside in value.values():
            yield from _nodes(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _nodes(inside)


def _compare_tokens(judge: Judge, text: str) -> bool:
    """Compare the tokens of a text with Spark's, and return whether it was accepted."""
    try:
        tokens = list(spark_tokens(text))
    except InvalidJobError:
        return False
    hints = [token for token in tokens if token.kind is TokenKind.HINT]
    ours = [(token.start, token.end) for token in tokens if token.kind is not TokenKind.HINT]
    theirs = [
        (start, end)
        for start, end in judge.tokens(text)
        if not any(hint.start <= start and end <= hint.end for hint in hints)
    ]
    if ours != theirs:
        raise WrongError(f"{text!r}: Spark has the tokens {[text[start:end] for start, end in theirs]}")
    return True


def _accepted(judge: Judge, text: str) -> RowQuery | None:
    """Return a query that is accepted and that Spark can parse, after a look at what Spark would run."""
    try:
        query = check_query(text)
    except InvalidJobError:
        return None
    nodes = judge.parsed(query.render("the_rows", ["id"]))
    if nodes is None:
        return None
    names = [node["class"] for node in nodes]
    relations = [node for node in nodes if node["class"].endswith("UnresolvedRelation")]
    functions = {_name(node) for node in nodes if node["class"].endswith("UnresolvedFunction")}
    others = [name for name in names if _READS_OTHERS.search(name)]
    if others or len(relations) != 1 or "the_rows" not in str(relations[0]) or not functions <= ROW_FUNCTIONS:
        raise WrongError(f"{text!r} was accepted, and Spark reads {others or relations}, calls {functions}")
    return query


def _name(function: dict[str, Any]) -> str:
    return str(function["nameParts"]).strip("[]").lower()


def play(judge: Judge, random: random.Random) -> Outcome:
    """Play a case."""
    texts = [a_text(random) for _ in range(TEXTS)]
    cut = sum(_compare_tokens(judge, text) for text in texts)
    queries = [query for text in texts if (query := _accepted(judge, text)) is not None]
    for query in random.sample(queries, min(PLANNED, len(queries))):
        judge.plan(query)
    return Outcome(checks=len(texts), about=f"{cut} texts cut as by Spark, {len(queries)} queries accepted")


@contextmanager
def _stage() -> Iterator[Play]:
    with spark_session() as spark:
        judge = Judge(prepare_session(spark))
        yield lambda _, random: play(judge, random)


CAMPAIGN = Campaign(
    name="query-text",
    about="comments, hints, quotes, escapes and blanks that hide SQL: what is checked is what Spark runs",
    quick=20,
    full=1_000,
    checks="texts",
    stage=_stage,
)
