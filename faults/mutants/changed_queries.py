"""Mistakes in how a finished view follows a changed query."""

from __future__ import annotations

from faults.mutants.killers import CHANGED_JOBS, CHANGED_VIEWS, EPOCH_REWRITES, ROW_DIFFERENCES
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="pinned-epoch-with-the-changed-query",
        breaks="An epoch that was pinned before the query changed writes its changes by the new one.",
        invariant="I2",
        file="airflow_backfill_provider/protocol/run.py",
        old="        settings = store.settings_for(barrier)\n",
        new="        settings = store.settings()\n",
        killers=(f"{CHANGED_JOBS}::test_an_epoch_has_the_query_that_its_barrier_was_pinned_with",),
    ),
    Mutant(
        name="verified-by-a-query-that-no-epoch-carried-out",
        breaks="A verification compares the view with a changed query before an epoch has carried it out.",
        invariant="I1",
        file="airflow_backfill_provider/jobs/verification/verifier.py",
        old="    settings = backfill.store.settings_for(barrier)\n",
        new="    settings = backfill.settings()\n",
        killers=(f"{CHANGED_VIEWS}::test_another_filter_and_the_changes_of_its_epoch_are_one_commit",),
    ),
    Mutant(
        name="condition-that-is-null-counts-as-neither",
        breaks="Rows for which one of the conditions is null neither leave the view nor come to it.",
        invariant="I1",
        file="airflow_backfill_provider/shapes/row/repair.py",
        old='passes = [f"coalesce(({condition}\\n), false)"',
        new='passes = [f"({condition}\\n)"',
        killers=(f"{CHANGED_VIEWS}::test_another_filter_and_the_changes_of_its_epoch_are_one_commit",),
    ),
    Mutant(
        name="changed-filter-left-idle",
        breaks="A changed filter without changes of rows counts as an idle epoch, so the former rows stay.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/decision.py",
        old=" or inputs.rewrite or inputs.is_due_anyway)",
        new=" or inputs.rewrite.repair or inputs.is_due_anyway)",
        killers=(
            f"{CHANGED_JOBS}::test_an_epoch_that_was_given_up_leaves_the_former_query_and_is_tried_by_a_comparison",
        ),
    ),
    Mutant(
        name="class-against-the-former-settings",
        breaks="A change is compared with the change before it, and not with the query that the view has.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/rewrite.py",
        old="record_of(history, previous) if previous",
        new="history[-2] if previous",
        killers=(f"{EPOCH_REWRITES}::test_the_last_of_several_changes_counts_against_what_the_view_has",),
    ),
    Mutant(
        name="former-condition-that-fails-again",
        breaks="After a given-up epoch the former condition is computed again, fails again, and no epoch ever ends.",
        invariant="I4",
        file="airflow_backfill_provider/protocol/rewrite.py",
        old=" or previous.given_up is not None:",
        new=":",
        killers=(
            f"{CHANGED_JOBS}::test_an_epoch_that_was_given_up_leaves_the_former_query_and_is_tried_by_a_comparison",
        ),
    ),
    Mutant(
        name="given-up-epoch-keeps-its-filter",
        breaks="The record of a given-up epoch says that it changed the filter.",
        invariant="I3",
        file="airflow_backfill_provider/core/epoch/giving_up.py",
        old='            "filter_change": None,\n',
        new="",
        killers=(
            f"{CHANGED_JOBS}::test_an_epoch_that_was_given_up_leaves_the_former_query_and_is_tried_by_a_comparison",
        ),
    ),
    Mutant(
        name="filter-under-another-name-of-the-upstream",
        breaks="Two conditions are computed under one name of the upstream, though each query has another.",
        invariant="I6",
        file="airflow_backfill_provider/shapes/row/difference.py",
        old="(one.columns, one.source) == (other.columns, other.source)",
        new="one.columns == other.columns",
        killers=(f"{ROW_DIFFERENCES}::test_what_the_text_does_not_show_is_found_by_a_comparison_of_all_rows",),
    ),
    Mutant(
        name="filter-of-a-later-step",
        breaks="The condition of a later step is computed of the upstream's columns, not of those of the step before.",
        invariant="I1",
        file="airflow_backfill_provider/shapes/row/difference.py",
        old="if len(levels) > 1 or level.is_piped",
        new="if level.is_piped",
        killers=(f"{ROW_DIFFERENCES}::test_steps_never_differ_by_their_conditions_alone",),
    ),
)
