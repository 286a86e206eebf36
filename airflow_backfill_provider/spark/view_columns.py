"""The view's columns: the query's names and types, and the upstream's comments, without its other metadata."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.lake.log.schemas import HIDDEN, TableSchema
from airflow_backfill_provider.lake.tables.view_table import CHARACTERS_TO_MAP, names_to_map
from airflow_backfill_provider.sources.shared.by_key import column

COLUMN_MAPPING = "delta.columnmapping.mode"
"""The property, in lower case, that allows any character in column names."""


def require_columns(schema: StructType, properties: Mapping[str, str], written: Collection[str]) -> None:
    """
    Refuse output columns that no Delta table can have, and names that Spark generated.

    Another version of Spark may generate another name for an expression without an alias.

    :param properties: the table properties in the job's definition.
    :param written: names in the query or in the upstream, in lower case.
    :raises InvalidJobError: with the columns.
    """
    names = [field.name.lower() for field in schema.fields]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidJobError(f"query: it names {', '.join(repeated)} more than once; give each column its own alias")
    for field in schema.fields:
        if CHARACTERS_TO_MAP & set(field.name) and field.name.lower() not in written:
            raise InvalidJobError(f"query: the column {quote(field.name)} has no alias; give it one")
        if field.dataType.typeName() == "void":
            raise InvalidJobError(f"query: the column {quote(field.name)} has no type; cast it")
    asked = {name.lower(): value.lower() for name, value in properties.items()}
    if asked.get(COLUMN_MAPPING) == "none" and (mapped := names_to_map(TableSchema.of(schema.json()).types)):
        raise InvalidJobError(
            f"query: the column {quote(mapped[0])} has characters that Delta does not allow in names without column "
            "mapping; give it an alias, or leave delta.columnMapping.mode out of table_properties"
        )


def without_metadata(schema: StructType) -> StructType:
    """
    Return columns with only a name, a type and what the package or people say of them, without other metadata.

    With that metadata the view would need table features that it does not have (defaults, identity columns, generated
    columns), or enforce lengths that the upstream has dropped since (CHAR and VARCHAR).
    """
    return StructType(
        [StructField(field.name, _plain(field.dataType), metadata=_comment(field.metadata)) for field in schema.fields]
    )


def with_comments(rows: DataFrame, table: StructType) -> DataFrame:
    """
    Return rows of a query whose columns have the comments that the view's columns of these names have.

    :param table: the view's columns; their comments may be newer than those of the upstream.
    """
    comments = {field.name: field.metadata["comment"] for field in table.fields if "comment" in field.metadata}
    return rows.select(
        *(
            column(field.name).alias(
                field.name,
                metadata=_comment(field.metadata)
                | ({"comment": comments[field.name]} if field.name in comments else {}),
            )
            for field in rows.schema.fields
        )
    )


def _comment(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a column's metadata says to people, which Spark keeps from the upstream, and that it is hidden."""
    return {name: value for name, value in metadata.items() if name in {"comment", HIDDEN}}


def _plain(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return without_metadata(kind)
        case ArrayType():
            return ArrayType(_plain(kind.elementType))
        case MapType():
            return MapType(_plain(kind.keyType), _plain(kind.valueType))
        case _:
            return kind
