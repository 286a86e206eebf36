"""
Reads columns of single data files and finds them as Spark does.

Any writer may have written a data file, long before it was added to the table. So its column names may differ from the
schema's in case, and a table that maps its columns by id ignores the names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.fs as arrow_fs

from airflow_backfill_provider.lake.stored_parquet import StoredParquet

_FIELD_ID = b"PARQUET:field_id"


def read_stored(
    files: arrow_fs.FileSystem, path: str, names: Sequence[str], field_ids: Mapping[str, int] | None = None
) -> pa.Table:
    """
    Return columns of one data file under the given names, without those that the file does not have.

    :param files: file system rooted at the table.
    :param path: the file.
    :param names: what the columns are called in data files.
    :param field_ids: the columns' ids in data files, if the table maps its columns by id.
    :raises pyarrow.ArrowInvalid: if several columns of the file match a name.
    """
    with files.open_input_file(path) as source:
        # Spark may have written timestamps as INT96. In nanoseconds, Arrow's default, they cover fewer years.
        file = StoredParquet(source, int96_unit="us")
        stored = {name: _stored_name(file.schema_arrow, name, field_ids) for name in names}
        found = {name: in_file for name, in_file in stored.items() if in_file is not None}
        # Arrow takes a dot for a path into a struct and would read that field as well, so select afterwards.
        rows = file.read([*found.values()]).select([*found.values()])
        for index, name in enumerate(found):
            # Replaces the field as well. Files may differ in whether a column may be null, and then Arrow would not
            # concatenate their rows.
            rows = rows.set_column(index, name, rows.column(index))
        return rows


def _stored_name(schema: pa.Schema, name: str, field_ids: Mapping[str, int] | None) -> str | None:
    """Return a column's name in a file, ``None`` if the file does not have it."""
    if field_ids is not None:
        wanted = str(field_ids[name]).encode()
        candidates = [field.name for field in schema if (field.metadata or {}).get(_FIELD_ID) == wanted]
    else:
        candidates = [field.name for field in schema if field.name.lower() == name.lower()]
    if len(candidates) > 1:
        raise pa.ArrowInvalid(f"the columns {', '.join(candidates)} all match {name}")
    return candidates[0] if candidates else None
