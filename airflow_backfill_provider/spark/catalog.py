"""Finds tables by their names in the catalogs of a Spark session, and registers a view there."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import CatalogError, CatalogUnavailableError, InvalidJobError
from airflow_backfill_provider.core.job.sql import text_literal
from airflow_backfill_provider.core.job.table_name import sql_name, sql_schema
from airflow_backfill_provider.core.location import canonical_location
from airflow_backfill_provider.spark.spark_messages import conditions, first_line, safe_message

_NO_TABLE = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
_NO_FILES = ("DELTA_PATH_DOES_NOT_EXIST", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE")
_OF_THE_CATALOG = "_LEGACY_ERROR_TEMP"
"""The condition of errors that Spark only passes on, such as those of a metastore that it cannot reach."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """
    A Delta table in a catalog.

    :param location: its canonical location; empty if the catalog has the name, but the table's folder is gone.
    :param table_id: the id in the table's own log, which a table that is made anew has another one of.
    """

    location: str
    table_id: str


class Catalogs:
    """
    The catalogs of a session. Every question is answered as of now.

    :param spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def find(self, name: str) -> CatalogTable | None:
        """
        Return the table with a name; ``None`` if there is none.

        :param name: the table's full name.
        :raises CatalogError: if it is no Delta table, or there is no such catalog.
        :raises CatalogUnavailableError: if the catalog does not answer.
        """
        try:
            row = self._spark.sql(f"DESCRIBE DETAIL {sql_name(name)}").collect()[0]
        except AnalysisException as error:
            found = conditions(error)
            if found and found[0].startswith(_NO_TABLE):
                return None
            if found and found[0].startswith(_NO_FILES):
                return CatalogTable("", "")
            raise _problem_with(name, error) from error
        if row.format != "delta":
            raise CatalogError(f"{name} is a table of format {row.format}, and only Delta tables can be used")
        try:
            return CatalogTable(canonical_location(row.location), row.id)
        except InvalidJobError as error:
            raise CatalogError(f"{name}: {error}") from error

    def folder_of_schema(self, name: str) -> str:
        """
        Return the folder of a table's schema, in which catalogs put tables.

        :param name: the table's full name.
        :returns: empty if the catalog does not say.
        :raises CatalogError: if there is no such schema.
        """
        try:
            rows = self._spark.sql(f"DESCRIBE SCHEMA EXTENDED {sql_schema(name)}").collect()
        except AnalysisException as error:
            raise _problem_with(name, error) from error
        folder = next((row.info_value for row in rows if row.info_name == "Location"), "")
        # Spark shows the folder of a schema as an escaped URI, unlike that of a table.
        return canonical_location(unquote(folder)) if folder else ""

    def register(self, name: str, location: str) -> None:
        """
        Give an existing Delta table a name, unless a table has the name.

        The catalog gets columns, comments and properties from the table's log.
        """
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {sql_name(name)} USING delta LOCATION {text_literal(location)}"
        ).collect()


def _problem_with(name: str, error: AnalysisException) -> CatalogError:
    """Return the error for a name that cannot be looked up."""
    found = conditions(error)
    if not found or found[0].startswith(_OF_THE_CATALOG):
        return CatalogUnavailableError(f"the catalog of {name} does not answer ({safe_message(error)}); try again")
    catalog, schema, _ = name.split(".")
    return CatalogError(
        f"{name} cannot be looked up ({first_line(error)}); create schema {schema}, and check that Spark is started "
        f"with the catalog {catalog} (spark.sql.catalog.{catalog}; spark_catalog is always there)"
    )
