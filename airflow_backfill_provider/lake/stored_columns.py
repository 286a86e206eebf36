"""
Columns of single data files, found as Spark finds them.

A data file may have been written by anybody, long before it became a part of the table: the names in it may be spelt in
another case than the schema's, and a table that maps its columns by id does not care for names at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

_FIELD_ID = b"PARQUET:field_id"


def read_stored(
    files: arrow_fs.FileSystem, path: str, names: Sequence[str], field_ids: Mapping[str, int] | None = None
) -> pa.Table:
    """
    Return columns of one data file under the given names; columns that the file does not have are missing.

    :param files: file system rooted at the table.
    :param path: the file.
    :param names: what the columns are called in data files.
    :param field_ids: the columns' ids in data files, if the table maps its columns by id.
    :raises pyarrow.ArrowInvalid: if several columns of the file may be meant.
    """
    with files.open_input_file(path) as source:
        # Spark may have written instants as INT96, whose nanoseconds reach less far than what Spark can say.
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        stored = {name: _stored_name(file.schema_arrow, name, field_ids) for name in names}
        found = {name: there for name, there in stored.items() if there is not None}
        # Arrow takes a dot for a path into a struct, and reads that as well.
        return file.read(columns=[*found.values()]).select([*found.values()]).rename_columns([*found])


def _stored_name(schema: pa.Schema, name: str, field_ids: Mapping[str, int] | None) -> str | None:
    """Return what a column is called in a file, ``None`` if the file does not have it."""
    if field_ids is not None:
        wanted = str(field_ids[name]).encode()
        candidates = [field.name for field in schema if (field.metadata or {}).get(_FIELD_ID) == wanted]
    else:
        candidates = [field.name for field in schema if field.name.lower() == name.lower()]
    if len(candidates) > 1:
        raise pa.ArrowInvalid(f"the columns {', '.join(candidates)} may all be {name}")
    return candidates[0] if candidates else None
