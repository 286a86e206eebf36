"""The table properties that a view may not have."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.table_properties import require_allowed_properties


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"backfill.job": "x", "Backfill.b": "y"}, "Backfill.b, backfill.job: properties that begin with 'backfill.'"),
        ({"delta.appendOnly": "TRUE"}, "append-only view"),
        ({"delta.setTransactionRetentionDuration": "interval 1 day"}, "writes the same rows twice"),
        ({"delta.targetFileSize": "1mb"}, "write it as the job's field target_file_size"),
        ({"Delta.EnableRowTracking": "true"}, "write it as the job's field row_tracking"),
        ({"delta.rowTracking.materializedRowIdColumnName": "x"}, "Delta itself names the columns of row tracking"),
        ({"delta.coordinatedCommits.commitCoordinator-preview": "x"}, "asks no coordinator"),
        ({"delta.columnMapping.maxColumnId": "9"}, "Delta itself counts the columns"),
    ],
)
def test_properties_under_which_a_view_cannot_be_kept_are_refused(properties, said):
    with pytest.raises(InvalidJobError, match=said):
        require_allowed_properties(properties)


def test_other_properties_are_allowed():
    require_allowed_properties({"delta.appendOnly": "false", "delta.logRetentionDuration": "interval 9 days"})
