"""Columns that come to the upstream of a query with a star, which follows them."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import QueryFailedError
from airflow_backfill_provider.core.job.definition_change import ChangeKind
from airflow_backfill_provider.jobs import changed_query, mutations
from airflow_backfill_provider.jobs.followed_stars import FOLLOWED, follow_stars
from tests.property.backfilling import Backfilling
from tests.unit.jobs.test_changed_query import add_note, change, defined, inject, run

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture
def following(served: Backfilling) -> Backfilling:
    """A finished view of everything, whose star follows the upstream."""
    change(served, star="follow")
    return served


def follow(backfilling: Backfilling) -> str:
    return follow_stars(backfilling.backfill, backfilling.engine(), clock=backfilling.clock)


def test_a_column_that_comes_is_written_by_the_next_epoch(following):
    assert follow(following) == ""
    add_note(following)
    assert follow(following) == "note came to the upstream; the next epoch writes the whole view with it"
    settings = following.store.settings()
    assert (settings.change, settings.requested_by) == (SettingsChange.CHANGE, FOLLOWED)
    assert settings.upstream.types["note"] == "string"
    barrier = inject(following)
    assert barrier.computes_whole
    run(following, barrier)
    assert follow(following) == ""


def test_it_is_asked_for_once_however_many_epochs_end_before_it_is_written(following):
    following.orders.change([3], status="draft")
    barrier = inject(following)
    add_note(following)
    assert follow(following)
    settings = following.store.settings()
    assert follow(following) == ""
    run(following, barrier)
    assert follow(following) == ""
    assert following.store.settings() == settings


def test_a_star_that_is_frozen_follows_nothing(served):
    add_note(served)
    assert follow(served) == ""
    assert change(served).upstream == served.store.settings_history()[0].upstream


def test_a_star_follows_once_the_view_is_finished(backfilling):
    """A change of the query needs all rows."""
    change_settings = {"job": defined(backfilling, star="follow").model_dump(mode="json")}
    backfilling.store.change_settings(
        lambda settings: settings.changed(
            SettingsChange.CHANGE, requested_by="ann", requested_at=backfilling.clock(), **change_settings
        )
    )
    add_note(backfilling)
    assert follow(backfilling) == ""


def test_the_command_names_what_comes(following):
    add_note(following)
    proposed = changed_query.propose_change(following.job, store=following.store, upstream=following.orders.table)
    assert proposed.change.kind is ChangeKind.COLUMNS_ADDED
    assert proposed.change.reason == "the query's star follows what came to the upstream: note"


def test_what_cannot_be_followed_leaves_the_view_as_it_is(following):
    """The epoch that met the column is committed, and nothing asks for another one."""
    add_note(following)

    engine = following.engine()
    engine.refusal = QueryFailedError("note is no good")
    settings = following.store.settings()
    happens = follow_stars(following.backfill, engine, clock=following.clock)
    assert happens == "the view does not get the columns that came to its upstream: note is no good"
    assert following.store.settings() == settings
    assert inject(following) is None


def test_a_change_that_waits_for_an_approval_is_proposed_once(following):
    change(following, cut_over="on_approval")
    add_note(following)
    assert follow(following) == "note came to the upstream; the view gets it once somebody approves the change"
    proposed = following.store.settings().proposed
    assert proposed.proposed_by == FOLLOWED
    assert follow(following) == ""
    assert following.store.settings().proposed == proposed


def test_a_cancelled_job_follows_nothing_and_says_nothing(following):
    """The epoch that was pinned before is still done."""
    add_note(following)
    mutations.cancel_job(store=following.store, requested_by="ann")
    assert follow(following) == ""
