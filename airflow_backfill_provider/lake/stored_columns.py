"""Columns of single data files, as they are stored."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq


def read_stored(files: arrow_fs.FileSystem, path: str, names: Sequence[str]) -> pa.Table:
    """
    Return columns of one data file; those that it is older than are missing.

    :param files: file system rooted at the table.
    :param path: the file.
    :param names: what the columns are called in data files.
    """
    with files.open_input_file(path) as source:
        # Spark may have written instants as INT96, whose nanoseconds reach less far than what Spark can say.
        return pq.ParquetFile(source, coerce_int96_timestamp_unit="us").read(columns=list(names))
