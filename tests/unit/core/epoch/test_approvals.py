"""What an approval lets go live: one definition in one incarnation, and nothing else."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.approvals import (
    as_proposed,
    backfill_of,
    change_of,
    is_approved,
    is_released,
    is_withheld,
    publishes_view,
    rebuild_of,
)
from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.job.cut_over import ApprovedCutOver, ProposedDefinition
from airflow_backfill_provider.core.job.succession import FirstRows, Successor
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from tests.builders import NOW, PAID, barrier_of, commit_of, job_of, settings_of

GATED = job_of(cut_over="on_approval")
FIRST_ROWS = FirstRows(point=HistoryPoint(offset=5), location="/lake/rebuilt", version=3)


def approved(subject):
    return ApprovedCutOver(subject=subject, difference=1, versions={}, approved_by="vera", approved_at=NOW)


def test_a_first_backfill_is_withheld_until_it_is_approved():
    settings = settings_of(GATED)
    subject = backfill_of(settings)
    assert is_withheld(settings)
    settings = settings.model_copy(update={"approved": approved(subject)})
    assert is_approved(settings, subject)
    assert not is_withheld(settings)
    assert is_withheld(settings.model_copy(update={"incarnation": "b2"})), "another incarnation voids it"
    other = job_of(cut_over="on_approval", vnode_count=8).model_dump(mode="json")
    assert is_withheld(settings.model_copy(update={"job": other})), "another definition voids it"


@pytest.mark.parametrize(
    "changes",
    [{"first_rows": FIRST_ROWS}, {"finished_epoch": 3}, {"job": job_of().model_dump(mode="json")}],
    ids=["it began with rows", "it was finished", "nothing asks for an approval"],
)
def test_what_goes_live_without_an_approval(changes):
    settings = settings_of(GATED).model_copy(update=changes)
    assert backfill_of(settings) is None
    assert not is_withheld(settings)


@pytest.mark.parametrize(
    ("completed", "withheld", "is_free", "publishes"),
    [
        (True, True, True, True),
        (True, True, False, False),
        (True, False, True, False),
        (False, True, True, False),
    ],
)
def test_a_view_is_published_once_it_is_complete_was_withheld_and_is_approved(completed, withheld, is_free, publishes):
    settings = settings_of(job_of() if is_free else GATED)
    commit = commit_of(barrier_of(1), completed=completed, withheld=withheld)
    assert publishes_view(settings, commit) is publishes
    assert not publishes_view(settings, None)


def growing(job):
    fields = job.model_dump(mode="json")
    return settings_of(GATED, successor=Successor(folder="/lake/s", job=fields, growing=fields))


def test_a_rebuild_needs_an_approval_if_its_own_definition_asks_for_one():
    assert rebuild_of(settings_of(GATED), "b2") is None
    assert rebuild_of(growing(job_of()), "b2") is None
    assert rebuild_of(growing(GATED), "b2") != rebuild_of(growing(GATED), "c3")


def test_a_rebuild_is_released_by_an_approval_of_its_incarnation_or_if_it_needs_none():
    waits = growing(GATED)
    assert not is_released(waits, "b2")
    seen = waits.model_copy(update={"approved": approved(rebuild_of(waits, "b2"))})
    assert is_released(seen, "b2")
    assert not is_released(seen, "c3")
    assert is_released(growing(job_of()), "b2")


def test_a_proposal_brings_its_definition_and_keeps_the_rest():
    settings = settings_of(sequence=4, paused=True)
    assert (change_of(settings), as_proposed(settings)) == (None, settings)
    fields = {**settings.model_dump(mode="json", include={"strategy", "shape", "upstream", "view_columns"})}
    fields["job"] = job_of(query=PAID, cut_over="on_approval").model_dump(mode="json")
    proposal = ProposedDefinition(sequence=5, fields=fields, proposed_by="ann", proposed_at=NOW)
    proposed = settings.changed(SettingsChange.PROPOSE_CHANGE, requested_by="ann", requested_at=NOW, proposed=proposal)
    assert proposed.definition == settings.definition
    latter = as_proposed(proposed)
    assert (latter.job["query"], latter.proposed, latter.paused, latter.sequence) == (PAID, None, True, 5)
    assert change_of(proposed).proposal == 5
