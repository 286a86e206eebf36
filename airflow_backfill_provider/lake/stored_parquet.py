"""
Reads Parquet files through Python's files, in the calling thread alone.

The bytes of such a file are Python objects. A thread of Arrow's that reads them may still hold some when the reading is
over. If the process ends meanwhile, the thread lets go of them while the interpreter is torn down, and that aborts the
process: "terminate called without an active exception".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

_SMALL = 1 << 20
"""The most bytes of a file that one request reads whole, in place of one request for each column."""


class StoredParquet:
    """
    A Parquet file; opening it reads its footer.

    :param source: the file, open as long as this is used.
    :param int96_unit: the unit of timestamps in the notation INT96; Arrow's default is nanoseconds.
    :raises pyarrow.ArrowInvalid: if it is no Parquet file.
    """

    def __init__(self, source: pa.NativeFile | BinaryIO, *, int96_unit: str | None = None) -> None:
        self._source = pa.PythonFile(source, mode="r") if not isinstance(source, pa.NativeFile) else source
        self._int96_unit = int96_unit
        self._file = self._opened(self._source, None)

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer."""
        return self._file.metadata

    @property
    def schema(self) -> pq.ParquetSchema:
        """The columns as Parquet has them."""
        return self._file.schema

    @property
    def schema_arrow(self) -> pa.Schema:
        """The columns as Arrow reads them."""
        return self._file.schema_arrow

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows, with these columns and those that Arrow takes the names for; all by default."""
        file = self._file
        if (size := self._source.size()) <= _SMALL:
            file = self._opened(BytesIO(self._source.read_at(size, 0)), self.metadata)
        return file.read(columns=columns, use_threads=False)

    def batches(self, rows: int, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """
        Yield a group of rows in parts, with these columns and those that Arrow takes the names for.

        :param rows: the most rows of a part.
        """
        yield from self._file.iter_batches(rows, row_groups=[group], columns=[*columns], use_threads=False)

    def _opened(self, source: pa.NativeFile | BinaryIO, metadata: pq.FileMetaData | None) -> pq.ParquetFile:
        # A file that is read ahead of the columns is read by threads.
        return pq.ParquetFile(source, metadata=metadata, pre_buffer=False, coerce_int96_timestamp_unit=self._int96_unit)
