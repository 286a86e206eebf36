"""
How a view's table is laid out from its creation on: its partitions or its clustering, its files, its rows' versions.

A layout is a part of the definition. The table is made with it, so another layout needs a rebuild.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator, model_validator

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.yaml_text import ShownAsYaml
from airflow_backfill_provider.core.sizes import bytes_of

MOST_CLUSTERING_COLUMNS = 4
"""The most columns by which Delta clusters a table."""

TARGET_FILE_SIZE = "delta.targetFileSize"
ROW_TRACKING = "delta.enableRowTracking"

Columns = tuple[StrictStr, ...]


def _nothing(given: object) -> bool:
    return not given


class ViewLayout(ShownAsYaml):
    """
    The fields of a job that lay out its view's table.

    :param partition_by: the columns of the view by whose values its files are divided into partitions; by default none.
    :param cluster_by: the columns of the view by which Delta clusters its files, at most four; by default none.
    :param target_file_size: how large compactions make files, in bytes or as ``256mb``; by default 128 MiB.
    :param row_tracking: whether Delta keeps the version that last wrote each row, also if a later commit copies it.
        Appends on one machine are then slower.
    """

    partition_by: Annotated[Columns, Field(exclude_if=_nothing)] = ()
    cluster_by: Annotated[Columns, Field(exclude_if=_nothing)] = ()
    target_file_size: Annotated[StrictInt | None, Field(exclude_if=_nothing)] = None
    row_tracking: Annotated[StrictBool, Field(exclude_if=_nothing)] = False

    @field_validator("target_file_size", mode="before")
    @classmethod
    def _in_bytes(cls, value: Any) -> Any:
        found = bytes_of(value) if isinstance(value, str) else value
        if value is not None and (not isinstance(found, int) or isinstance(found, bool) or found < 1):
            raise ValueError("must be a number of bytes from 1, or a size such as 256mb")
        return found

    @field_validator("partition_by", "cluster_by")
    @classmethod
    def _named_once(cls, value: Columns) -> Columns:
        names = [name.lower() for name in value]
        if not all(names):
            raise ValueError("a column has no name")
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"names {', '.join(repeated)} more than once")
        return value

    @field_validator("cluster_by")
    @classmethod
    def _few(cls, value: Columns) -> Columns:
        if len(value) > MOST_CLUSTERING_COLUMNS:
            raise ValueError(f"{len(value)} columns; Delta clusters by at most {MOST_CLUSTERING_COLUMNS}")
        return value

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.partition_by and self.cluster_by:
            raise InvalidJobError(
                "partition_by, cluster_by: Delta does not cluster a table that has partitions; leave one of them out"
            )
        return self

    @classmethod
    def field_names(cls) -> list[str]:
        """Return the names of all fields; those that a class inherits come last."""
        return sorted(cls.model_fields, key=lambda name: name not in cls.__annotations__)

    @property
    def has_layout(self) -> bool:
        """Whether the job names a layout."""
        return bool(self.partition_by or self.cluster_by or self.layout_properties)

    @property
    def layout_properties(self) -> dict[str, str]:
        """The table properties that are a part of the layout."""
        size = {} if self.target_file_size is None else {TARGET_FILE_SIZE: str(self.target_file_size)}
        return size | ({ROW_TRACKING: "true"} if self.row_tracking else {})


def column_named(name: str, columns: Sequence[str], field: str) -> str:
    """
    Return the view's column that a layout names, as the view has it.

    :raises InvalidJobError: if it has none.
    """
    found = next((column for column in columns if column.lower() == name.lower()), None)
    if found is None:
        raise InvalidJobError(
            f"{field}: the view has no column {name}; its columns are {', '.join(columns)}. Select it in the query, "
            "or correct the name"
        )
    return found


def require_partitions(names: Sequence[str], types: Mapping[str, str]) -> None:
    """
    Refuse columns by which no view can be partitioned.

    :param names: the columns that the job names.
    :param types: the view's columns and their types, as Delta writes them.
    :raises InvalidJobError: with the column.
    """
    found = [column_named(name, list(types), "partition_by") for name in names]
    for column in found:
        if not (types[column] in _PARTITIONED_BY or types[column].startswith("decimal(")):
            raise InvalidJobError(
                f"partition_by: column {column} has type {types[column]}, and a view can be partitioned by "
                f"{', '.join(_PARTITIONED_BY)} and decimal columns; for a time, select its date"
            )
    if found and len(found) == len(types):
        raise InvalidJobError(
            "partition_by: it names all columns, and a table needs one that is in its files; leave one out"
        )


def require_clustering(names: Sequence[str], types: Mapping[str, str], properties: Mapping[str, str]) -> None:
    """
    Refuse columns by which Delta cannot cluster a view: it needs the statistics of their files.

    :param names: the columns that the job names.
    :param types: the view's columns and their types, as Delta writes them; nested types as JSON.
    :param properties: the table properties in the job's definition.
    :raises InvalidJobError: with the column.
    """
    for name in names:
        column = column_named(name, list(types), "cluster_by")
        if not (types[column] in _CLUSTERED_BY or types[column].startswith("decimal(")):
            raise InvalidJobError(
                f"cluster_by: column {column} has type {types[column]}, of which files have no bounds; a view can be "
                f"clustered by {', '.join(_CLUSTERED_BY)} and decimal columns"
            )
        if column not in _with_statistics(types, properties):
            raise InvalidJobError(
                f"cluster_by: files have no statistics of column {column}, because it is not among the first columns; "
                "select it earlier in the query, or set delta.dataSkippingNumIndexedCols in table_properties"
            )


def _with_statistics(types: Mapping[str, str], properties: Mapping[str, str]) -> set[str]:
    """Return the columns of which Delta keeps statistics; a nested one counts as one, so these may be too many."""
    asked = {name.lower(): value for name, value in properties.items()}
    if named := asked.get("delta.dataskippingstatscolumns"):
        wanted = {name.strip().strip("`").lower() for name in named.split(",")}
        return {column for column in types if column.lower() in wanted}
    given = asked.get("delta.dataskippingnumindexedcols", "")
    number = int(given) if re.fullmatch(r"-?\d+", given) else _INDEXED
    return set(list(types) if number < 0 else list(types)[:number])


_INDEXED = 32
_PARTITIONED_BY = ("boolean", "byte", "short", "integer", "long", "string", "date")
_CLUSTERED_BY = (
    *("byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp"),
    "timestamp_ntz",
)
