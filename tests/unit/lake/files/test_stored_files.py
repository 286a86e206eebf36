"""Files under a location, as Arrow sees them."""

from __future__ import annotations

from airflow_backfill_provider.lake.files.stored_files import stored_files


def test_files_have_paths_below_the_location(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"content")
    with stored_files(str(tmp_path)).open_input_file("folder/file") as found:
        assert found.read() == b"content"
