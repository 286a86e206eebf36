"""Files that are written at once, by deltalake's handler."""

from __future__ import annotations

from airflow_backfill_provider.lake.files.small_files import write_file
from airflow_backfill_provider.lake.files.stored_files import stored_files


def test_a_file_replaces_an_older_one_and_folders_are_made(tmp_path):
    storage = stored_files(str(tmp_path))
    write_file(storage, "a/b/record", b"one")
    assert (tmp_path / "a" / "b" / "record").read_bytes() == b"one"
    write_file(storage, "a/b/record", b"2" * 3_000_000)
    assert (tmp_path / "a" / "b" / "record").read_bytes() == b"2" * 3_000_000
    write_file(storage, "a/b/record", b"")
    assert (tmp_path / "a" / "b" / "record").read_bytes() == b""
