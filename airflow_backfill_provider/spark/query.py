"""Checks a job's query on Spark, and runs it over rows of its upstream."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from threading import Lock
from types import MappingProxyType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_backfill_provider.spark.named_relations import sql_over
from airflow_backfill_provider.spark.plan_check import explainable, explainable_schema, require_announced_plan
from airflow_backfill_provider.spark.session import session_settings
from airflow_backfill_provider.spark.spark_errors import query_errors

WHOLE_PLANS = {
    "spark.sql.maxPlanStringLength": str(2**31 - 100),
    "spark.sql.maxMetadataStringLength": str(2**31 - 100),
    "spark.sql.debug.maxToStringFields": "1000000",
    # A cluster may hide parts of plans; this matches nothing.
    "spark.sql.redaction.string.regex": "(?!)",
    # Constants must stay as in the query.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("ConstantFolding", "ConvertToLocalRelation", "PropagateEmptyRelation", "PruneFilters")
    ),
}
"""Settings with which Spark prints plans whole, as they were written."""

_ANALYSIS = {
    **WHOLE_PLANS,
    # Analysing a path would open its files, so none is found; the session's own statements need paths.
    "spark.sql.runSQLOnFiles": "false",
}

_checked: WeakKeyDictionary[SparkSession, set[tuple[str, frozenset[str]]]] = WeakKeyDictionary()
_checking = Lock()


NO_OTHERS: Mapping[str, Any] = MappingProxyType({})
"""No relations beside the upstream's."""


class Query(Protocol):
    """A query as the engine runs it."""

    @property
    def text(self) -> str:
        """The query as the user wrote it, without comments."""
        ...

    @property
    def has_steps(self) -> bool:
        """Whether the query may rename columns in subqueries."""
        ...

    @property
    def upstream_names(self) -> frozenset[str]:
        """The names of the used columns, and of all fields inside them."""
        ...

    @property
    def plan_nodes(self) -> Collection[str]:
        """The names of the nodes that Spark's plan of the query may have."""
        ...

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the upstreams beside the one that leads; none for most."""
        ...

    def over(self, relation: str, others: Mapping[str, str] = NO_OTHERS) -> str:
        """
        Return the SQL of the view's rows, over relations with the used columns.

        :param relation: the relation to read as the upstream, or as the one that leads.
        :param others: the relations to read as the other upstreams, by their names.
        """
        ...


def run_query(
    spark: SparkSession, query: Query, rows: DataFrame, others: Mapping[str, DataFrame] = NO_OTHERS
) -> DataFrame:
    """
    Return the view's rows, hidden columns included, over rows with the used columns alone.

    :param rows: the rows of the upstream, or of the one that leads.
    :param others: the rows of the other upstreams, by their names.
    :raises InvalidJobError: if Spark cannot analyse the query, or if the query does more than its check found.
    """
    require_checked(spark, query, rows, others)
    with query_errors():
        return sql_over(spark, *over_rows(query, rows, others))


def over_rows(
    query: Query, rows: DataFrame, others: Mapping[str, DataFrame] = NO_OTHERS
) -> tuple[str, Mapping[str, DataFrame]]:
    """Return the SQL of a query over rows, and what stands for each relation in it; see :func:`sql_over`."""
    relation, names = _new_relation(), {name: _new_relation() for name in query.others}
    return query.over(relation, names), {relation: rows, **{names[name]: others[name] for name in names}}


def require_checked(
    spark: SparkSession, query: Query, rows: DataFrame, others: Mapping[str, DataFrame] = NO_OTHERS
) -> None:
    """
    Check Spark's plan of a query, once per session.

    :param rows: rows with the used columns; only their schema is used.
    :param others: those of the other upstreams, by their names.
    :raises InvalidJobError: as :func:`run_query`.
    """
    asked = (
        query.over("rows", {name: f"rows_{number}" for number, name in enumerate(query.others)}),
        query.upstream_names,
    )
    # Parts of a chunk are written by threads of one session, and other threads need paths again after the check.
    with _checking:
        known = _checked.setdefault(spark, set())
        if asked not in known:
            _check(spark, query, rows.schema, {name: others[name].schema for name in query.others})
            known.add(asked)


def _check(spark: SparkSession, query: Query, schema: StructType, other_schemas: Mapping[str, StructType]) -> None:
    relation, others = _new_relation(), {name: _new_relation() for name in other_schemas}
    sql = explainable(query.over(relation, others))
    schemas = {relation: schema, **{others[name]: found for name, found in other_schemas.items()}}
    try:
        for view, found in schemas.items():
            # Without rows, so that Spark reads no file of the upstream.
            empty = spark.createDataFrame([], StructType.fromJson(explainable_schema(found.jsonValue())))
            empty.createOrReplaceTempView(view)
        with query_errors(), session_settings(spark, _ANALYSIS):
            spark.sql(sql).schema  # noqa: B018 - raises the error of a query that cannot be analysed
            explained: Any = spark.sql(f"EXPLAIN EXTENDED {sql}").collect()[0][0]
    finally:
        for view in schemas:
            spark.catalog.dropTempView(view)
    require_announced_plan(str(explained), relation, query.plan_nodes, tuple(others.values()))


def _new_relation() -> str:
    return f"backfill_upstream_{uuid.uuid4().hex}"
