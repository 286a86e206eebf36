"""The rows of files on Spark, each with its split and its place."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.sources.shared.file_log.definition import PLACE, SPLIT
from airflow_backfill_provider.sources.shared.file_log.entries import FilePart

DETAILS = "__backfill_file_details"
"""The details of a row's file, as a map of texts, for expressions of columns."""

_PATH, _FIRST, _BEGIN, _END, _OF_SPLIT, _DETAILS_TEXT = (
    f"__backfill_file_{name}" for name in ("path", "first", "begin", "end", "split", "details_text")
)
"""Columns of the parts while they are joined."""

_NO_END = 2**63 - 1

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)

_GLOB = re.compile(r"([][{}*?\\,])")
"""Signs in the name of a file that Spark would take for a pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """
    Rows as Spark reads them from files.

    :param rows: the rows, with all that :attr:`path` and :attr:`index` need.
    :param path: the location of a row's file, as Spark has it in ``_metadata.file_path``.
    :param index: the number of a row in its file, from 0 in the file's order.
    """

    rows: DataFrame
    path: Column
    index: Column


def locations(root: str, parts: Sequence[FilePart]) -> list[str]:
    """
    Return the locations of the files of parts, as Spark reads them.

    :raises UpstreamError: if Hadoop cannot find one by its name.
    """
    paths = dict.fromkeys(part.placed.file.path for part in parts)
    for path in paths:
        if ":" in path and _GLOB.search(f"{root}/{path}"):
            raise UpstreamError(
                f"{root}/{path}: Hadoop cannot open a file with a colon in its name if its path "
                "also has one of [ ] { } * ? \\ or a comma; rename the file"
            )
    return [_GLOB.sub(r"\\\1", f"{root}/{path}") for path in paths]


def with_places(
    spark: SparkSession,
    found: FileRows,
    root: str,
    parts: Sequence[FilePart],
    columns: Mapping[str, Column],
    partitions: Mapping[str, StructField] | None = None,
) -> DataFrame:
    """
    Return the rows of parts of files, with their splits and places.

    :param found: the rows of all their files.
    :param root: the upstream's folder, in which the paths of files lie.
    :param columns: the upstream's columns by their names.
    :param partitions: column → the name and the type of its value, if the details of files have that, as text. A text
        that is no value of the type is null, as in Delta's own scan.
    """
    in_path = partitions or {}
    frame = spark.createDataFrame(
        [_part(part) for part in parts],
        StructType(
            [
                StructField(_PATH, StringType()),
                *(StructField(name, LongType()) for name in (_OF_SPLIT, _FIRST, _BEGIN, _END)),
                StructField(_DETAILS_TEXT, StringType()),
            ]
        ),
    )
    values = F.from_json(F.col(_DETAILS_TEXT), "map<string,string>")
    frame = frame.select(
        *(F.col(name) for name in (_PATH, _OF_SPLIT, _FIRST, _BEGIN, _END)),
        values.alias(DETAILS),
        *(
            values.getItem(one.name).try_cast(one.dataType).alias(_in_path(number))
            for number, one in enumerate(in_path.values())
        ),
    )
    file, index = "__backfill_row_path", "__backfill_row_index"
    rows = found.rows.withColumns({file: _within(found.path, root), index: found.index})
    place = F.col(_FIRST) + F.col(index)
    joined = rows.join(F.broadcast(frame), F.col(file) == F.col(_PATH)).filter(
        (place >= F.col(_BEGIN)) & (place < F.col(_END))
    )
    known = {name: F.col(_in_path(number)) for number, name in enumerate(in_path)}
    return joined.select(
        *(known.get(name, column).alias(name) for name, column in columns.items()),
        F.col(_OF_SPLIT).cast("int").alias(SPLIT),
        place.cast("long").alias(PLACE),
    )


def key_fields() -> list[StructField]:
    """Return the fields of the columns that identify a row."""
    return [StructField(SPLIT, _type("int")), StructField(PLACE, _type("bigint"))]


def _type(name: str) -> DataType:
    return DataType.fromDDL(name)


def _in_path(number: int) -> str:
    return f"__backfill_partition_{number}"


def _part(part: FilePart) -> tuple[object, ...]:
    placed = part.placed
    # A row behind the last one that was counted must be seen, so that the chunk is refused.
    end = _NO_END if part.end == placed.end else part.end
    return (placed.file.path, placed.split, placed.begin, part.begin, end, placed.file.details or json.dumps({}))


def _within(location: Column, root: str) -> Column:
    """Return the path of a file in the upstream's folder; Spark writes its location as a URI."""
    decoded = F.url_decode(F.replace(location, F.lit("+"), F.lit("%2B")))
    folder = f"{_SCHEME.sub('', root)}/"
    return F.substr(decoded, F.locate(folder, decoded) + F.lit(len(folder)))
