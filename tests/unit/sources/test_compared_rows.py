"""Upstreams whose rows are compared, because they record no changes: they are small, by a count."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_backfill_provider.core.errors import ChangeDataFeedDisabledError
from airflow_backfill_provider.sources.compared_rows import MOST_COMPARED_ROWS, require_few_rows
from tests.builders import commit_file, write_table


def table_of(path, rows):
    """Return a table of so many rows that records no changes."""
    ones = pa.chunked_array([pa.repeat(pa.scalar(1, pa.int32()), rows)])
    return write_table(path, {"id": ones}, configuration={})


def test_as_many_rows_as_are_compared_at_most_are_accepted(tmp_path):
    source = table_of(tmp_path / "t", MOST_COMPARED_ROWS)
    require_few_rows(source, source.at())


def test_more_rows_are_refused_whatever_the_statistics_say(tmp_path):
    """What others wrote is suspect: the footers of the files are counted."""
    path = tmp_path / "t"
    source = table_of(path, MOST_COMPARED_ROWS + 1)
    commit = commit_file(path, 0)
    counted = f'numRecords\\":{MOST_COMPARED_ROWS + 1}'
    assert counted in commit.read_text()
    commit.write_text(commit.read_text().replace(counted, 'numRecords\\":5'))
    assert source.row_count(source.latest()) == 5
    with pytest.raises(ChangeDataFeedDisabledError, match=r"1,000,001 rows as of 0$") as refused:
        require_few_rows(source, source.at())
    assert "ALTER TABLE" in str(refused.value)
