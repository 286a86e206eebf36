"""Mistakes in the order of an epoch's steps."""

from __future__ import annotations

from faults.mutants.killers import INJECT, INJECT_REFUSALS, INJECT_WAITING, RATE, REBUILDS, RUN_CRASHES, RUN_SHARED
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="window-one-version-late",
        breaks="A window begins one version after the end of the window before, so that version's changes are lost.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/decision.py",
        old="return previous.upstream.to_offset if previous else settings.first_window_after",
        new="return Offset(previous.upstream.to_offset.number + 1) if previous else settings.first_window_after",
        killers=("tests/unit/protocol/test_inject.py::test_the_next_barrier_continues_where_the_one_before_ended",),
    ),
    Mutant(
        name="chosen-limit-not-pinned",
        breaks="A barrier does not pin the rate limit that auto chose for its chunk, so a later reader takes another.",
        invariant="I2",
        file="airflow_backfill_provider/protocol/decision.py",
        old="rate_limit=planned.limit.rows,",
        new="rate_limit=settings.rate.fixed.rows,",
        killers=(f"{RATE}::test_every_epoch_pins_its_limit_and_says_why",),
    ),
    Mutant(
        name="state-counted-twice",
        breaks="An epoch that died after the commit of its state counts its rows again.",
        invariant="I2",
        file="airflow_backfill_provider/protocol/epoch_run.py",
        old="if state.epoch < barrier.epoch:",
        new="if state.epoch <= barrier.epoch:",
        killers=(f"{RUN_CRASHES}::test_an_epoch_that_died_anywhere_is_completed_by_the_next_run",),
    ),
    Mutant(
        name="part-before-the-changes",
        breaks="A part of a shared epoch is read before its changes are applied.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/run.py",
        old="if None not in reported:",
        new="if part in reported:",
        killers=(f"{RUN_SHARED}::test_a_part_before_the_changes_is_refused",),
    ),
    Mutant(
        name="stale-incarnation-accepted",
        breaks="An epoch that was pinned before a rebuild is run into the rebuilt view.",
        invariant="I5",
        file="airflow_backfill_provider/protocol/epoch_run.py",
        old="if barrier.incarnation != settings.incarnation:",
        new="if not barrier.incarnation:",
        killers=(f"{REBUILDS}::test_a_barrier_from_before_a_rebuild_is_refused_and_the_next_one_is_a_new_one",),
    ),
    Mutant(
        name="older-copy-of-the-upstream",
        breaks="An upstream that was restored from an older copy is read as if its history continued.",
        invariant="I6",
        file="airflow_backfill_provider/protocol/inject.py",
        old="        upstream.require_same_history(basis.reached_point)\n",
        new="        pass\n",
        killers=(f"{INJECT}::test_an_upstream_that_was_restored_from_an_older_copy_is_refused",),
    ),
    Mutant(
        name="arranged-of-another-history",
        breaks="The first epoch continues from an arrangement of versions that the upstream no longer has.",
        invariant="I6",
        file="airflow_backfill_provider/protocol/decision.py",
        old="return previous.upstream.reached_point if previous else settings.first_point",
        new="return previous.upstream.reached_point if previous else None",
        killers=(
            f"{INJECT_REFUSALS}::test_an_arrangement_of_a_history_that_was_taken_back_is_refused_before_its_first_epoch",
        ),
    ),
    Mutant(
        name="cancelled-epoch-left-half-done",
        breaks="A job that is cancelled between two writes of an epoch leaves a view that matches no version.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/inject.py",
        old="if previous is not None and commit is None:",
        new="if previous is not None and commit is None and not settings.cancelled:",
        killers=(f"{INJECT_REFUSALS}::test_a_pinned_epoch_of_a_cancelled_job_is_done_first",),
    ),
    Mutant(
        name="last-chunk-at-an-older-version",
        breaks="The epoch that publishes reads its chunk at an older version, so later changes are lost.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/inject.py",
        old="        if not basis.completes(plan):\n            return plan, resting\n",
        new="        return plan, resting\n",
        killers=(f"{INJECT_WAITING}::test_chunks_are_read_at_one_version_while_changes_wait",),
    ),
    Mutant(
        name="arrangement-behind-its-chunk",
        breaks="A chunk of newer rows is read from an arrangement whose changes wait.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/decision.py",
        old=" and not (keeps and chunk_offset != basis.resting_offset)",
        new="",
        killers=(
            f"{INJECT_WAITING}::test_rows_added_after_the_chunks_of_an_arrangement_end_the_waiting",
            f"{INJECT_WAITING}::test_a_chunk_of_an_arrangement_that_was_given_up_ends_the_waiting",
        ),
    ),
    Mutant(
        name="given-up-though-written",
        breaks="A window that was applied is given up, and its changes are applied a second time.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/give_up.py",
        old="applied = bool(written) or None in run.reported() or not run.engine.fence_changes(settings, barrier)",
        new="applied = run.engine.fence_changes(settings, barrier) and False",
        killers=("tests/unit/protocol/test_give_up_crashes.py::test_what_an_attempt_wrote_before_the_fence_stays",),
    ),
)
