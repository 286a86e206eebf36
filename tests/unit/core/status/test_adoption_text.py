"""What is said of a table that became a view."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.job.adoption import Adopted
from airflow_backfill_provider.core.job.succession import FirstRows
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.status.adoption_text import adoption_lines, compared, unknown_rows
from tests.builders import NOW, job_of, settings_of


def adopted_settings(path="/lake/nightly", **changes):
    job = job_of(backfill_from={"path": path}, as_of=7)
    rows = FirstRows(
        point=HistoryPoint(offset=Offset(7)),
        location=path,
        version=41,
        adopted=Adopted(compared=4, vnodes=4, written_by="MERGE, Apache-Spark/3.5", written_at=NOW),
    )
    return settings_of(job, first_rows=rows, **changes)


def test_a_copy_leaves_the_table_to_its_owner():
    became, equal, to_stop = adoption_lines(adopted_settings())
    assert (
        became == "version 41 of /lake/nightly became the view, by a copy of its files, as of version 7 of /lake/orders"
    )
    assert equal == "all 4 vnodes were compared with the query, and are equal"
    assert to_stop.startswith("what writes to /lake/nightly (its last write: MERGE, Apache-Spark/3.5, ")
    assert to_stop.endswith("may go on or stop: the view no longer depends on it")


def test_what_writes_to_a_table_that_became_the_view_must_stop():
    settings = adopted_settings(job_of().view_location)
    assert ", in place, " in adoption_lines(settings)[0]
    assert adoption_lines(settings)[-1].startswith(f"stop whatever writes to {job_of().view_location} (its last write")


def test_of_other_jobs_nothing_is_said():
    assert (adoption_lines(settings_of()), unknown_rows(settings_of())) == ((), "")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            Adopted(compared=64, vnodes=256),
            "64 of 256 vnodes were compared with the query, and are equal; with 95% confidence, at most 10 of the "
            "others differ. Verify the job to know all of them",
        ),
        (
            Adopted(compared=256, vnodes=256, differing=2, keys=3),
            "3 keys in 2 of 256 compared vnodes differed from the query; the first epoch repairs them. Verify the job "
            "afterwards",
        ),
    ],
)
def test_what_was_not_compared_or_differed_is_said(found, said):
    assert compared(found) == said


def test_rows_that_are_not_all_known_to_be_equal_are_a_warning_until_they_are():
    assert unknown_rows(adopted_settings(equal_sequence=0)).startswith("the view was adopted, and all 4 vnodes")
    assert not unknown_rows(adopted_settings(equal_sequence=1))
