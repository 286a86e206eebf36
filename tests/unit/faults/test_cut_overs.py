"""The schedules of cut-overs end right, and find what goes live without an approval."""

from __future__ import annotations

from collections import deque

import pytest

from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.job.cut_over import ApprovedCutOver, CutOverKind, CutOverSubject
from airflow_backfill_provider.jobs import succession
from faults import cut_overs
from faults.campaign import WrongError, chance
from tests.builders import NOW, barrier_of, job_of, settings_of

GATED = job_of(cut_over="on_approval")
OTHER = job_of(cut_over="on_approval", query="SELECT id FROM upstream")
REBUILT = 13
"""A case whose rebuild would go live before its approval, if nothing held it back; other draws may move it."""


def play(case: int) -> str:
    return cut_overs.play(case, chance("cut-overs", 1, case)).about


def record(change: SettingsChange, job=GATED, kind: CutOverKind | None = None, **changes) -> JobSettings:
    """Return a record of the settings, with the approval of a kind of cut-over to the same definition."""
    settings = settings_of(job, change=change, **changes)
    if kind is None:
        return settings
    subject = CutOverSubject.of(kind, settings.incarnation, job.definition(), proposal=changes.get("sequence", 1) - 1)
    approval = ApprovedCutOver(subject=subject, difference=1, versions={}, approved_by="vera", approved_at=NOW)
    return settings.model_copy(update={"approved": approval})


@pytest.mark.slow  # whole epochs through Delta tables
def test_a_schedule_ends_right():
    assert "approve" in play(REBUILT)


@pytest.mark.slow  # whole epochs through Delta tables
def test_a_rebuild_that_nothing_holds_back_is_found(monkeypatch):
    monkeypatch.setattr(succession, "is_released", lambda *_: True)
    with pytest.raises(WrongError, match="the rebuild of record .* went live, and nobody has approved that"):
        deque(map(play, range(REBUILT, REBUILT + 30)), maxlen=0)


@pytest.mark.parametrize(
    ("change", "kind"),
    [(SettingsChange.HAND_OVER, CutOverKind.REBUILD), (SettingsChange.FINISH, CutOverKind.BACKFILL)],
)
def test_what_a_record_makes_live_needs_its_own_approval(change, kind):
    def found(*history: JobSettings) -> str:
        return cut_overs.unapproved(history, [])

    assert not found(record(change, kind=kind))
    assert not found(record(change, job_of())), "no approval is asked for"
    assert kind.words in found(record(change))
    assert kind.words in found(record(change, kind=CutOverKind.CHANGE))
    voided = record(change, kind=kind).model_copy(update={"incarnation": "b2"})
    assert kind.words in found(voided), "it is of another incarnation"


def test_a_view_that_began_with_rows_is_finished_without_an_approval():
    finished = record(SettingsChange.FINISH)
    begun = finished.model_copy(update={"first_rows": True})
    assert cut_overs.unapproved([finished], [])
    assert not cut_overs.unapproved([begun], [])


def test_a_changed_query_needs_its_approval_once_a_barrier_has_it():
    before = record(SettingsChange.CREATE)
    changed = record(SettingsChange.CHANGE, OTHER, sequence=2)
    barriers = [barrier_of(1, settings_sequence=1), barrier_of(2, settings_sequence=2)]
    assert not cut_overs.unapproved([before, changed], barriers[:1]), "it can be taken back"
    assert "the changed query of record 2" in cut_overs.unapproved([before, changed], barriers)
    approved = record(SettingsChange.CHANGE, OTHER, CutOverKind.CHANGE, sequence=2)
    assert not cut_overs.unapproved([before, approved], barriers)
