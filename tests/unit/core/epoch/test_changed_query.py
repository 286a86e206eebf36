"""Which definition an epoch has."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.changed_query import is_changed, record_of, settings_for
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from tests.builders import NOW, barrier_of, job_of, settings_of

FORMER, LATTER = "SELECT id FROM upstream", "SELECT id FROM upstream WHERE amount > 1"


def history() -> list[JobSettings]:
    """A job that is created, paused, changed and resumed."""
    created = settings_of(job_of(query=FORMER))
    paused = created.changed(SettingsChange.PAUSE, requested_by="ann", requested_at=NOW, paused=True)
    job = job_of(query=LATTER).model_dump(mode="json")
    changed = paused.changed(SettingsChange.CHANGE, requested_by="ann", requested_at=NOW, job=job)
    resumed = changed.changed(SettingsChange.RESUME, requested_by="ann", requested_at=NOW, paused=False)
    return [created, paused, changed, resumed]


def test_an_epoch_has_the_definition_of_its_record_and_all_else_of_the_newest():
    records = history()
    found = settings_for(records, barrier_of(settings_sequence=2))
    assert (found.job["query"], found.paused, found.sequence) == (FORMER, False, 4)
    assert found.definition_digest == records[0].definition_digest != records[-1].definition_digest
    assert settings_for(records, barrier_of(settings_sequence=3)).job["query"] == LATTER


def test_an_epoch_of_no_record_has_the_first_one():
    """An epoch that was given up before any other was committed has the number 0."""
    assert record_of(history(), barrier_of(settings_sequence=0)) == history()[0]


def test_an_epoch_of_another_incarnation_is_left_to_those_who_refuse_it():
    records = history()
    assert settings_for(records, barrier_of(incarnation="b2")) == records[-1]
    assert record_of(records, barrier_of(incarnation="b2")) is None


def test_only_a_change_of_the_query_counts_as_one():
    records = history()
    assert is_changed(records)
    assert not is_changed([records[0], records[1], records[3]])
