"""A changed query of a finished view: what is refused, what is recorded, and when it takes effect."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Mutation
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import (
    ConcurrentUpdateError,
    InvalidJobError,
    JobCancelledError,
    NotFinishedError,
    QueryFailedError,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.definition_change import ChangeKind
from airflow_backfill_provider.jobs import changed_query, creation, mutations, revert, succession
from airflow_backfill_provider.jobs.first_look import FirstLook
from airflow_backfill_provider.jobs.resolution import resolve_upstream
from airflow_backfill_provider.strategies import KINDS
from tests.builders import NOW, PAID
from tests.dying import died
from tests.property.backfilling import TESTER, Backfilling
from tests.property.memory_queries import EVERYTHING, ONLY_PAID, query_rows
from tests.variants import mostly_exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


POINTS = (
    CrashPoint.AFTER_PIN,
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_STATE_COMMIT,
    CrashPoint.AFTER_STATE_COMMIT,
    CrashPoint.BEFORE_LOG_COMMIT,
)
GROUPS = "SELECT status, count(*) AS n FROM upstream GROUP BY status"


def defined(backfilling: Backfilling, **changes) -> BackfillJob:
    return BackfillJob(**{**backfilling.job.model_dump(mode="json"), **changes})


def change(backfilling: Backfilling, **changes):
    """Change the job's definition."""
    job = defined(backfilling, **changes)
    settings = changed_query.change_query(
        job,
        store=backfilling.backfill.store,
        upstream=backfilling.orders.table,
        engine=backfilling.engine,
        requested_by="ann",
        clock=backfilling.clock,
    )
    backfilling.job = job
    return settings


def inject(backfilling: Backfilling):
    return protocol.inject_barrier(
        store=backfilling.backfill.store,
        upstream=backfilling.orders.table,
        requester=TESTER,
        clock=backfilling.clock,
    ).barrier


def run(backfilling: Backfilling, barrier):
    return protocol.run_epoch(
        barrier, store=backfilling.backfill.store, engine=backfilling.engine(), clock=backfilling.clock
    )


def rows_of(backfilling: Backfilling, query: str):
    """Return what a query makes of the upstream."""
    settings = backfilling.store.settings().model_copy(update={"job": {"query": query}})
    rows = {
        (key,): {"id": key, "status": status, "amount": amount}
        for key, (status, amount) in backfilling.orders.rows.items()
    }
    return sorted(query_rows(settings, rows))


def add_note(backfilling: Backfilling) -> None:
    DeltaTable(backfilling.orders.path).alter.add_columns([Field("note", PrimitiveType("string"))])


def test_a_changed_filter_takes_effect_with_the_next_barrier(served):
    served.orders.change([3], status="draft")
    settings = change(served, query=ONLY_PAID)
    created = served.store.settings_history()[0]
    assert (settings.change, settings.incarnation) == (SettingsChange.CHANGE, created.incarnation)
    former = served.store.settings_of_view()
    assert former.job["query"] == EVERYTHING
    barrier = inject(served)
    assert barrier.filter_change.model_dump(exclude={"types"}) == {
        "relation": "upstream",
        "before": "TRUE",
        "after": "status = 'paid'",
    }
    assert [pinned.mutation for pinned in barrier.mutations] == [Mutation.CHANGE]
    assert barrier.definition == settings.definition_digest != former.definition_digest
    run(served, barrier)
    assert sorted(served.view.rows) == rows_of(served, ONLY_PAID)
    assert inject(served) is None, "it is done once"
    assert served.store.settings_of_view().job["query"] == ONLY_PAID


def test_what_is_no_filter_is_a_repair_of_all_vnodes(served):
    change(served, query=PAID)
    barrier = inject(served)
    assert (barrier.filter_change, barrier.repair.vnodes) == (None, (0, 1, 2, 3))
    assert barrier.warnings == ()
    run(served, barrier)
    assert sorted(served.view.rows) == rows_of(served, PAID)


def test_a_text_that_says_the_same_changes_no_row_and_asks_no_engine(served):
    engines = len(served.engines)
    settings = change(served, query=f"{EVERYTHING} -- all of it")
    assert len(served.engines) == engines
    assert settings.upstream == served.store.settings_history()[0].upstream
    assert inject(served) is None
    assert change(served, query=f"{EVERYTHING} -- all of it") == settings, "asking again changes nothing"


@pytest.mark.parametrize("pinned_before", [True, False])
def test_an_epoch_has_the_query_that_its_barrier_was_pinned_with(served, pinned_before):
    """I2: also an attempt that dies before the change, and goes on after it."""
    served.orders.add(20, 21)
    served.orders.change([1], status="draft")
    barrier = inject(served)
    if pinned_before:
        assert died(CrashPoint.AFTER_CHANGES_COMMIT, lambda: run(served, barrier))
    else:
        run(served, barrier)
    change(served, query=ONLY_PAID)
    if pinned_before:
        assert inject(served) == barrier
        run(served, barrier)
    assert sorted(served.view.rows) == rows_of(served, EVERYTHING)
    run(served, inject(served))
    assert sorted(served.view.rows) == rows_of(served, ONLY_PAID)


def test_the_class_is_that_against_what_the_view_has_by_then(served):
    """Of two changes before an epoch, only the last one counts."""
    change(served, query=PAID)
    change(served, query=ONLY_PAID)
    assert inject(served).filter_change is not None


def test_a_change_that_is_taken_back_before_an_epoch_is_none(served):
    change(served, query=ONLY_PAID)
    change(served, query=EVERYTHING)
    assert inject(served) is None
    assert sorted(served.view.rows) == rows_of(served, EVERYTHING)


@pytest.mark.parametrize("point", mostly_exhaustive(POINTS, [CrashPoint.AFTER_CHANGES_COMMIT]))
def test_an_epoch_that_dies_is_done_again_with_both_queries(served, point):
    served.orders.change([2, 5], status="draft")
    change(served, query=ONLY_PAID)

    def epoch():
        run(served, inject(served))

    assert died(point, epoch)
    epoch()
    assert sorted(served.view.rows) == rows_of(served, ONLY_PAID)


def test_an_epoch_that_was_given_up_leaves_the_former_query_and_is_tried_by_a_comparison(served):
    """The former condition may be what fails, so it is not computed again."""
    change(served, query=ONLY_PAID)
    barrier = inject(served)
    engine = served.engine()
    engine.refusal = QueryFailedError("it fails on a row")
    with pytest.raises(QueryFailedError):
        protocol.run_epoch(barrier, store=served.store, engine=engine, clock=served.clock)
    given_up = served.store.barriers()[-1]
    assert given_up.given_up is not None
    assert given_up.filter_change is None
    assert served.store.settings_of_view().job["query"] == EVERYTHING
    following = inject(served)
    assert (following.filter_change, following.repair.vnodes) == (None, (0, 1, 2, 3))
    run(served, following)
    assert sorted(served.view.rows) == rows_of(served, ONLY_PAID)


@pytest.mark.exhaustive
def test_a_repair_that_is_asked_for_meanwhile_makes_it_a_comparison(served):
    change(served, query=ONLY_PAID)
    mutations.repair_job(store=served.store, requested_by="ann", keys=[[1]])
    barrier = inject(served)
    assert (barrier.filter_change, barrier.repair.vnodes) == (None, (0, 1, 2, 3))


def test_the_former_definition_is_refused_once_it_is_changed(served):
    former = served.job
    change(served, query=ONLY_PAID)
    assert creation.require_job(served.job, served.store).job["query"] == ONLY_PAID
    with pytest.raises(InvalidJobError, match="with another query; rebuild the job to change its definition, or run"):
        creation.require_job(former, served.store)


@pytest.mark.exhaustive
def test_a_rebuild_is_undone_to_the_query_that_the_view_had(served):
    """A changed query that no epoch carried out is not that of the former rows."""
    change(served, query=ONLY_PAID)
    creation.rebuild_job(
        defined(served, query=PAID),
        store=served.store,
        upstream=served.orders.table,
        engine=served.engine,
        requested_by="ann",
        clock=served.clock,
    )
    settings = revert.put_back(served.store, engine=served.engine, requested_by="ann", clock=served.clock)
    assert settings.job["query"] == EVERYTHING
    assert sorted(served.view.rows) == rows_of(served, EVERYTHING)


def test_only_a_finished_view_that_is_in_use_can_follow(backfilling):
    with pytest.raises(NotFinishedError, match="finish it first, or rebuild the job with the new query"):
        change(backfilling, query=ONLY_PAID)
    mutations.cancel_job(store=backfilling.store, requested_by="ann")
    with pytest.raises(JobCancelledError):
        change(backfilling, query=ONLY_PAID)


def test_a_view_beside_which_a_rebuild_grows_does_not_follow(served):
    succession.grow_successor(
        defined(served, query=PAID),
        store=served.store,
        upstream=served.orders.table,
        engine=served.engine,
        requested_by="ann",
        clock=served.clock,
    )
    with pytest.raises(InvalidJobError, match="a rebuild grows beside its view"):
        change(served, query=ONLY_PAID)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"vnode_count": 8}, "another vnode_count"),
        (
            {"query": GROUPS},
            "its shape was row and would be group",
        ),
    ],
)
def test_what_only_a_rebuild_can_change_is_refused_by_name(served, changes, why):
    before = served.store.settings()
    proposed = changed_query.propose_change(
        defined(served, **changes), store=served.store, upstream=served.orders.table
    )
    assert proposed.change.kind is ChangeKind.EVERYTHING
    with pytest.raises(InvalidJobError, match=f"{why}; rebuild the job instead: airflow-backfill rebuild --keep"):
        change(served, **changes)
    assert served.store.settings() == before


def test_a_change_is_refused_if_the_settings_changed_meanwhile(served):
    """What was checked would not be what is changed."""

    def engine():
        mutations.pause_job(store=served.store, requested_by="bob")
        return served.engine()

    with pytest.raises(ConcurrentUpdateError, match="changed meanwhile; try again"):
        changed_query.change_query(
            defined(served, query=ONLY_PAID),
            store=served.store,
            upstream=served.orders.table,
            engine=engine,
            requested_by="ann",
            clock=served.clock,
        )
    assert served.store.settings().job["query"] == EVERYTHING


def test_a_star_stands_for_the_columns_that_it_stood_for(served):
    add_note(served)
    settings = change(served, query=ONLY_PAID)
    assert settings.upstream == served.store.settings_history()[0].upstream


def test_a_star_that_is_new_stands_for_all_columns(backfilling):
    """The former query had none, so nothing says that a column is left out."""
    listed = defined(backfilling, query="SELECT id, status, amount FROM upstream")
    former = creation.new_settings(
        listed,
        KINDS.named("no_shuffle"),
        backfilling.orders.table.at(),
        resolve_upstream(listed, backfilling.orders.table.at()),
        start=None,
        requested_by="x",
        requested_at=NOW,
    )
    add_note(backfilling)
    seen = FirstLook(described=backfilling.orders.table.at())
    for held, expected in ((former, {"id", "status", "amount", "note"}), (backfilling.store.settings(), former.types)):
        found = changed_query._without_new_columns(seen, defined(backfilling, query=EVERYTHING), held)
        assert set(found.described.types) == set(expected)
