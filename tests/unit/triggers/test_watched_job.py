"""What triggers that wait for the same job share."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_backfill_provider.lake.log.version_watch import VersionsWatch
from airflow_backfill_provider.triggers import watched_job
from airflow_backfill_provider.triggers.conditions import EpochCommitted, Finished, observe
from tests.unit.stand_in import Lake

CONNECTION = "airflow_backfill_default"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was looked at: the tables' versions, or a condition."""
    looks: list[object] = []
    latest = VersionsWatch.latest

    def ask_versions(watch: VersionsWatch) -> Any:
        looks.append("versions")
        return latest(watch)

    def look(reader: Any, condition: Any) -> Any:
        looks.append(condition)
        return observe(reader, condition)

    monkeypatch.setattr(VersionsWatch, "latest", ask_versions)
    monkeypatch.setattr(watched_job, "observe", look)
    monkeypatch.setattr(watched_job, "FRESH_SECONDS", 1000.0)
    return looks


def ask(lake: Lake, *conditions) -> list[str]:
    """Ask for some conditions at once, each for a trigger of its own."""
    jobs = [watched_job.watched_job(lake.backfill.job.state, CONNECTION) for _ in conditions]

    async def answers() -> list[str]:
        asked = zip(jobs, conditions, strict=True)
        return [answer.note for answer in await asyncio.gather(*(job.observe(condition) for job, condition in asked))]

    return asyncio.run(answers())


def test_triggers_that_wait_for_the_same_share_one_look(created: Lake, looks):
    notes = ask(created, *[Finished(), EpochCommitted(1)] * 20)

    assert len(notes) == 40
    assert len(set(notes)) == 2
    assert looks == ["versions", Finished(), EpochCommitted(1)]


def test_jobs_are_the_same_by_their_tables_and_by_how_these_are_reached():
    """Another connection may have other rights, or lead to another store under the same name."""
    job = watched_job.watched_job("s3a://lake/state", "one")

    assert watched_job.watched_job("s3a://lake/state", "one") is job
    assert watched_job.watched_job("s3a://lake/state", "two") is not job
    assert watched_job.watched_job("s3a://lake/another", "one") is not job


def test_an_unchanged_table_is_read_again_after_some_minutes():
    """If a table lost data files, its version is still the same."""
    assert 0 < watched_job.FRESH_SECONDS < watched_job.LOOK_ANYWAY_SECONDS <= 300


def test_an_answer_that_no_trigger_waits_for_any_more_is_forgotten(created: Lake, looks):
    ask(created, Finished())
    ask(created, Finished())

    assert looks == ["versions", Finished()] * 2


def test_no_more_answers_are_kept_than_allowed(created: Lake, looks, monkeypatch):
    monkeypatch.setattr(watched_job, "MOST_ANSWERS", 2)

    ask(created, Finished(), EpochCommitted(1), EpochCommitted(2), EpochCommitted(1), Finished())

    assert [look for look in looks if look == Finished()] == [Finished()] * 2
    assert [look for look in looks if look == EpochCommitted(1)] == [EpochCommitted(1)]


def test_a_failure_is_no_answer_for_another_trigger(created: Lake, looks, monkeypatch):
    failures = iter(["the lake cannot be reached"])

    def fail_once(reader, condition):
        for failure in failures:
            raise ConnectionError(failure)
        return observe(reader, condition)

    monkeypatch.setattr(watched_job, "observe", fail_once)
    job = watched_job.watched_job(created.backfill.job.state, CONNECTION)

    with pytest.raises(ConnectionError):
        asyncio.run(job.observe(Finished()))
    assert "not finished" in asyncio.run(job.observe(Finished())).note
