"""What is asked of a job's speed: which values are allowed, what the pace makes of a limit, and how it is told."""

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.rate_limit import AskedRate, ChosenLimit, PinnedRate, described_limit
from tests.builders import job_of, settings_of


@pytest.mark.parametrize("limit", [None, 0, 1, 2**63 - 1, "auto"])
def test_an_allowed_limit_is_taken_as_it_is(limit):
    assert job_of(rate_limit=limit).rate.rate_limit == limit
    assert AskedRate.checked(rate_limit=limit).is_auto == (limit == "auto")


@pytest.mark.parametrize("limit", [-1, 2**63, 1.5, True, "Auto", "7", [], float("nan")])
def test_another_limit_is_refused_with_one_sentence(limit):
    """I6."""
    with pytest.raises(InvalidJobError, match=r"^rate_limit: Input should be .*, or 'auto'$"):
        AskedRate.checked(rate_limit=limit)
    with pytest.raises(InvalidJobError, match=r"^rate_limit: Input should be .*, or 'auto'$"):
        job_of(rate_limit=limit)


@pytest.mark.parametrize("target", [0, -1, float("nan"), float("inf"), 86_401, "60", True])
def test_a_target_that_is_no_number_of_seconds_is_refused(target):
    with pytest.raises(InvalidJobError, match="target_epoch_seconds"):
        job_of(rate_limit="auto", target_epoch_seconds=target)


@pytest.mark.parametrize("limit", [None, 0, 7])
def test_only_auto_has_a_target(limit):
    with pytest.raises(InvalidJobError, match="target_epoch_seconds: only rate_limit auto aims at a number of seconds"):
        job_of(rate_limit=limit, target_epoch_seconds=60)


@pytest.mark.parametrize("pace", [0, -5, 1.5, "7", True, 2**63])
def test_a_pace_that_is_no_number_of_rows_is_refused(pace):
    with pytest.raises(InvalidJobError, match="max_rows_per_second"):
        job_of(max_rows_per_second=pace)


def test_all_of_it_only_initializes_the_settings():
    """So the definition, its digest and its comparison are those of jobs without these fields."""
    asked = {"rate_limit": "auto", "target_epoch_seconds": 30, "max_rows_per_second": 500}
    assert job_of(**asked).definition() == job_of().definition()
    assert settings_of(job_of(**asked)).definition_digest == settings_of(job_of()).definition_digest


def test_a_job_survives_its_own_json():
    for fields in ({}, {"rate_limit": "auto"}, {"rate_limit": 7, "max_rows_per_second": 5}):
        job = job_of(**fields)
        assert type(job)(**job.model_dump(mode="json")) == job


@pytest.mark.parametrize(
    ("limit", "pace", "rows"),
    [(None, None, None), (0, None, 0), (7, None, 7), (None, 10, 600), (0, 10, 0), (600, 10, 600), (601, 10, 600)],
)
def test_the_pace_bounds_a_chunk_to_a_minute_of_it(limit, pace, rows):
    fixed = AskedRate(rate_limit=limit, max_rows_per_second=pace).fixed
    assert fixed.rows == rows
    assert bool(fixed.reason) == (rows != limit)


def test_the_slowest_pace_still_reads_a_row():
    """I4."""
    asked = AskedRate(rate_limit="auto", target_epoch_seconds=0.001, max_rows_per_second=1)
    assert asked.most_by_pace == 1


@pytest.mark.parametrize(
    ("asked", "limit", "pinned", "rows", "reason"),
    [
        ({}, 5, None, None, ""),
        ({"rate_limit": 7}, 5, None, 7, ""),
        ({"rate_limit": 7}, 5, PinnedRate(asked="auto", reason="old"), 7, ""),
        ({"rate_limit": "auto"}, None, None, None, ""),
        ({"rate_limit": "auto"}, 5, None, None, ""),
        ({"rate_limit": "auto"}, 5, PinnedRate(asked=7, reason="of the pace"), None, ""),
        ({"rate_limit": "auto"}, 5, PinnedRate(asked="auto", reason="because"), 5, "because"),
    ],
)
def test_a_choice_is_in_force_once_a_barrier_has_it(asked, limit, pinned, rows, reason):
    found = AskedRate(**asked).in_force(limit, pinned)
    assert (found["effective_rate_limit"], found["rate_limit_reason"]) == (rows, reason)


def test_the_target_is_shown_where_it_counts():
    assert AskedRate(rate_limit="auto").in_force(None, None)["target_epoch_seconds"] == 60
    assert AskedRate(rate_limit=7).in_force(None, None)["target_epoch_seconds"] is None


@pytest.mark.parametrize(
    ("asked", "chosen", "text"),
    [
        (None, ChosenLimit(None), "unlimited"),
        (0, ChosenLimit(0), "0 rows per epoch"),
        (7, ChosenLimit(5, "because of the pace"), "5 rows per epoch, because of the pace"),
        ("auto", ChosenLimit(None), "auto: chosen when the next epoch is pinned"),
        ("auto", ChosenLimit(1_200_000, "because"), "auto: 1,200,000 rows per epoch, because"),
    ],
)
def test_a_limit_in_words(asked, chosen, text):
    assert described_limit(asked, chosen.rows, chosen.reason) == text
