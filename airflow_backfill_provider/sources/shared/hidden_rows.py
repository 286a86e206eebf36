"""
Leaves out the rows that deletion vectors hide, at the cost of numbering a file's rows.

Delta finds them by their numbers. Where a query does not ask for numbers itself, Spark makes a struct of everything
that it knows of the file, such as its path and its times, for each row that it reads, and drops it again. That takes
several times as long as the reading. Where a query asks for the number alone, the struct has nothing else.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

ROW_INDEX = "row_index"
"""The field of a file's metadata with the number of a row."""


def without_file_metadata(rows: DataFrame) -> DataFrame:
    """
    Return the same rows of a Delta table with deletion vectors.

    :param rows: all rows of a version, as Spark reads them.
    """
    # Every row has a number, but Spark does not know, so it has to look.
    return rows.filter(rows.metadataColumn("_metadata").getField(ROW_INDEX) >= 0)
