"""Which rows a view keeps, in its job's definition."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.keep import Keep, require_free_names
from tests.builders import job_of


def test_a_job_that_keeps_only_the_latest_rows_has_the_definition_that_it_always_had():
    """Otherwise a job that was created by an older version would count as changed."""
    assert "keep" not in job_of(keep="latest").definition()


@pytest.mark.parametrize(("keep", "name"), [(Keep.HISTORY, "_Valid_From"), (Keep.DELETED, "_deleted_at")])
def test_a_query_may_not_have_a_column_that_the_view_has_for_itself(keep, name):
    with pytest.raises(InvalidJobError, match=f"the view has a column {name.lower()} of its own"):
        require_free_names(keep, ["id", name])
    require_free_names(Keep.LATEST, [name])


def test_which_rows_are_those_of_the_query():
    assert Keep.LATEST.is_present({})
    assert Keep.DELETED.is_present({"_deleted_at": None})
    assert not Keep.DELETED.is_present({"_deleted_at": 0})
    assert Keep.HISTORY.is_present({"_valid_from": 3, "_valid_to": None, "_is_current": True})
    assert not Keep.HISTORY.is_present({"_valid_from": 3, "_valid_to": 5, "_is_current": False})
