"""
The rows of data files by Delta's own scan, for verifications.

It shares with the reader of epochs only the file log, by which rows have places. Delta finds values on its own: it pads
CHAR, reads partition values, maps columns and widens types.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import LongType, StructField, StructType

from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.sources.append_only.verified_files import VerifiedFiles
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.file_log.definition import PLACE, SPLIT
from airflow_backfill_provider.sources.shared.file_log.entries import FilePart


def scanned_rows(spark: SparkSession, files: VerifiedFiles, parts: Sequence[FilePart]) -> DataFrame:
    """
    Return the rows of parts of files with all columns, their splits and their places.

    :param parts: at least one. Of a file that is read to its end, rows that were not counted are returned, too.
    """
    location = files.table([part.placed.file for part in parts])
    # It has no other version; if none is given, Delta looks for a newer one in each query.
    table = spark.read.format("delta").option("versionAsOf", 0).load(location)
    *columns, number = table.columns
    index, of, split, first, begin, end = own_columns(table.columns).numbered("part", 6)
    rows = table.withColumn(index, table.metadataColumn("_metadata").getField("row_index"))
    of_parts = spark.createDataFrame(
        [_part(number, part) for number, part in enumerate(parts)],
        StructType([StructField(name, LongType()) for name in (of, split, first, begin, end)]),
    )
    place = F.col(first) + F.col(index)
    return (
        rows.join(F.broadcast(of_parts), column(number) == F.col(of))
        .filter((place >= F.col(begin)) & F.coalesce(place < F.col(end), F.lit(True)))
        .select(*map(column, columns), F.col(split).cast("int").alias(SPLIT), place.alias(PLACE))
    )


def _part(number: int, part: FilePart) -> tuple[int | None, ...]:
    placed = part.placed
    # A row behind the last one that was counted is a difference, too.
    end = None if part.end == placed.end else part.end
    return number, placed.split, placed.begin, part.begin, end
