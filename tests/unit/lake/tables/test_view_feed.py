"""The change feed that a view gets when it is finished."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.lake.tables.view_feed import feed_of_finished


@pytest.mark.parametrize(
    ("given", "columns", "on"),
    [
        ({}, ["id"], True),
        ({"delta.enableDeletionVectors": "true"}, ["id"], True),
        ({"delta.enableChangeDataFeed": "false"}, ["id"], False),
        ({"DELTA.enablechangedatafeed": "false"}, ["id"], False),
        # Then the view has it from its creation.
        ({"delta.enableChangeDataFeed": "true"}, ["id"], False),
        # Delta would refuse the commit, and the view could never be finished.
        ({}, ["id", "_Change_Type"], False),
        ({}, ["_commit_version"], False),
    ],
)
def test_the_feed_comes_with_the_finish_unless_the_job_names_it_or_a_column_forbids_it(given, columns, on):
    assert feed_of_finished(given, columns) == ({"delta.enableChangeDataFeed": "true"} if on else {})
