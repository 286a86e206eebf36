"""What commits say of the rows that they wrote."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.lake.log.row_commits import copies_rows, files_of

ADD, REMOVE = {"add": {"path": "b%20c", "dataChange": True}}, {"remove": {"path": "a", "dataChange": True}}


def info(**metrics):
    return {"commitInfo": {"operationMetrics": metrics}}


def test_paths_are_decoded():
    assert files_of([ADD, REMOVE], "add") == ["b c"]


@pytest.mark.parametrize(
    ("actions", "copies"),
    [
        ([ADD], False),
        ([REMOVE, {"add": {"path": "a", "dataChange": True, "deletionVector": {}}}], False),
        ([ADD, REMOVE], True),
        ([ADD, REMOVE, info(numTargetRowsCopied="3")], True),
        ([ADD, REMOVE, info(numTargetRowsCopied="0")], False),
        ([ADD, REMOVE, info(num_copied_rows=0)], False),
        ([ADD, REMOVE, info(numCopiedRows="0", numTargetRowsCopied="1")], True),
        # A compaction copies all rows, whatever its metrics are called.
        ([{"add": {"path": "b", "dataChange": False}}, {"remove": {"path": "a", "dataChange": False}},
          info(numCopiedRows="0")], True),
    ],
)  # fmt: skip
def test_a_commit_that_replaces_files_may_have_copied_rows(actions, copies):
    assert copies_rows(actions) is copies
