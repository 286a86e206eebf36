"""When a view that is ready goes live, in its job's definition."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.cut_over import CutOverKind, CutOverSubject
from airflow_backfill_provider.core.job.definition import BackfillJob
from tests.builders import job_of


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cut_over": "sometimes"}, "cut_over: Input should be 'auto' or 'on_approval'"),
        ({"cut_over_timeout_hours": 3}, "cut_over_timeout_hours: nothing waits for an approval; give cut_over"),
        ({"cut_over": "on_approval", "cut_over_timeout_hours": 0}, "cut_over_timeout_hours: Input should be greater"),
        (
            {"cut_over": "on_approval", "cut_over_timeout_hours": "3"},
            "cut_over_timeout_hours.int: Input should be a valid",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(fields, said):
    """I6: before anything is written."""
    with pytest.raises(InvalidJobError, match=said):
        job_of(**fields)


def test_by_default_nothing_waits_and_a_definition_says_nothing_of_it():
    job = job_of()
    assert (job.waits_for_approval, job.cut_over_timeout) == (False, None)
    assert not {"cut_over", "cut_over_timeout_hours"} & set(job.model_dump(mode="json"))


def test_a_definition_that_waits_survives_json():
    job = job_of(cut_over="on_approval", cut_over_timeout_hours=1.5)
    assert (job.waits_for_approval, job.cut_over_timeout) == (True, dt.timedelta(minutes=90))
    assert BackfillJob(**job.model_dump(mode="json")) == job


def test_a_subject_is_one_definition_in_one_incarnation():
    def of(kind=CutOverKind.CHANGE, incarnation="a1", proposal=3, **fields):
        return CutOverSubject.of(kind, incarnation, job_of(**fields).definition(), proposal)

    assert of() == of(rate_limit=7), "what only initializes the settings does not matter"
    others = [of(kind=CutOverKind.REBUILD), of(incarnation="a2"), of(proposal=4), of(vnode_count=8)]
    assert of() not in others


@pytest.mark.parametrize("kind", CutOverKind)
def test_each_kind_has_words(kind):
    assert kind.words.startswith("the ")
