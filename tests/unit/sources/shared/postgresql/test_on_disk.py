"""Where a server's log ends; tests/integration/postgres waits for a real one."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.sources.shared.postgresql.on_disk import end_of_records

PAGE, FILE = 8192, 1 << 24


@pytest.mark.parametrize(
    ("inserted", "end"),
    [
        (FILE + 3 * PAGE + 100, FILE + 3 * PAGE + 100),
        (FILE + 3 * PAGE + 24, FILE + 3 * PAGE),
        (FILE + 3 * PAGE + 40, FILE + 3 * PAGE + 40),
        (2 * FILE + 40, 2 * FILE),
        (2 * FILE + 24, 2 * FILE),
        (2 * FILE, 2 * FILE),
    ],
)
def test_the_log_ends_before_a_header_that_nothing_follows_yet(inserted, end):
    """A server that rests would otherwise be waited for in vain; the rest of a long record is no header."""
    assert end_of_records(inserted, page=PAGE, file=FILE) == end
