"""Rows that an upstream has lost: what they mean for views of groups, and for views of rows."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.core.kinds import shape_of_job
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.jobs.lost_rows import require_computed_again, why_not_computed_again
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.split_offsets import offset_of
from tests.builders import job_of, settings_of
from tests.unit.strategies.source.in_memory import Appended, NumberedSplits

GROUPS = "SELECT partition, count(*) AS n FROM upstream GROUP BY partition"


def settings(query=GROUPS, start=(2, 0)):
    upstream = {"kafka": {"connection": "events", "topic": "orders"}}
    point = HistoryPoint(offset=offset_of(dict(enumerate(start))), mark="m1")
    job = job_of("/lake", upstream=upstream, query=query)
    return settings_of(job, start=point, strategy="source", shape=shape_of_job(job).name)


END = offset_of({0: 9, 1: 9})


def test_groups_cannot_be_computed_again_once_rows_are_gone_that_they_count():
    lost = Appended(NumberedSplits(3, 0))
    problem = why_not_computed_again(settings(), lost, END)
    assert problem.startswith("rows of splits [0] are gone. The view of job ")
    assert problem.endswith("Epochs go on; a rebuild begins with the rows that are left")
    with pytest.raises(ChangeFeedGapError, match="can be neither verified nor repaired"):
        require_computed_again(settings(), lost, END)


def test_rows_that_were_gone_when_the_job_began_are_not_among_them():
    assert why_not_computed_again(settings(), Appended(NumberedSplits(2, 0)), END) == ""
    require_computed_again(settings(), Appended(NumberedSplits(2, 0)), END)


def test_a_window_without_rows_has_lost_none():
    assert why_not_computed_again(settings(), Appended(NumberedSplits(99, 99)), offset_of({0: 2, 1: 0})) == ""


def test_views_of_rows_keep_what_is_gone():
    rows = settings("SELECT partition, offset FROM upstream")
    assert why_not_computed_again(rows, Appended(NumberedSplits(9, 9)), END) == ""


def test_rows_that_can_be_read_as_of_any_offset_are_never_gone():
    assert why_not_computed_again(settings(), DeltaSource("/nowhere"), END) == ""
