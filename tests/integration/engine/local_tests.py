"""The tests of this folder that work on local folders alone, and why."""

from __future__ import annotations

REASONS = {
    "test_another_source.py": "its source reads copies from a local folder",
    "test_damaged_files.py": "its names of folders are about the shell and Java's properties",
    "test_files.py": "its upstream is a local folder of files",
    "test_suspect_statistics.py": "it writes the upstream's log by hand",
    "test_upstream_schemas.py::test_a_window_of_many_schemas_is_one_feed": "it writes the upstream's log by hand",
    "test_verification.py::test_what_cannot_be_read_is_an_error_and_neither_equal_nor_different": (
        "it restores damaged files behind the server, which knows them by their checksums"
    ),
    "test_upserts.py": "its log of upserts is written by deltalake without options",
}
"""A file, or a file and a test (``test_epochs.py::test_one_row``) → why it needs local folders."""


def reason_to_be_local(test: str) -> str | None:
    """
    Return why a test needs local folders; ``None`` if it does not.

    :param test: its id, such as ``tests/integration/engine/test_epochs.py::test_one_row[arrangement]``.
    """
    file, _, name = test.rpartition("/")[2].partition("::")
    return REASONS.get(file) or REASONS.get(f"{file}::{name.partition('[')[0]}")
