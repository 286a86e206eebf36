"""Mistakes in how a rebuild takes the place of a view that is served."""

from __future__ import annotations

from faults.mutants.killers import SUCCESSION
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="handover-to-an-older-view",
        breaks="A rebuild takes the place of a view that shows newer changes, so readers go back in time.",
        invariant="I3",
        file="airflow_backfill_provider/jobs/succession.py",
        old=" and newest.upstream.to_offset < served:",
        new=" and newest.upstream.to_offset < newest.upstream.to_offset:",
        killers=(f"{SUCCESSION}::test_the_place_is_taken_only_by_a_view_that_is_as_new",),
    ),
    Mutant(
        name="handover-without-its-state",
        breaks="The job takes over the rows of a rebuild without their state, and reads all of them once more.",
        invariant="I2",
        file="airflow_backfill_provider/jobs/succession.py",
        old="    store.begin_state(follower, replace(state, epoch=follower.base_epoch))\n",
        new="    pass\n",
        killers=(f"{SUCCESSION}::test_the_handover_pins_the_rows_and_the_state_to_go_on_from",),
    ),
    Mutant(
        name="handover-of-an-unfinished-rebuild",
        breaks="A rebuild takes the view's place before all rows are read.",
        invariant="I1",
        file="airflow_backfill_provider/jobs/succession.py",
        old="    if newest is None or commit is None or not commit.completed:\n",
        new="    if newest is None or commit is None:\n",
        killers=(f"{SUCCESSION}::test_an_unfinished_rebuild_does_not_take_the_place",),
    ),
    Mutant(
        name="handover-left-idle",
        breaks="A handover without new changes counts as an idle epoch, so the former rows stay.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/decision.py",
        old=" or inputs.rewrite or inputs.is_due_anyway)",
        new=" or inputs.rewrite)",
        killers=(f"{SUCCESSION}::test_the_handover_pins_the_rows_and_the_state_to_go_on_from",),
    ),
    Mutant(
        name="finished-by-a-former-epoch",
        breaks="A view that takes another's place counts as finished before it has its rows.",
        invariant="I1",
        file="airflow_backfill_provider/jobs/cut_over.py",
        old="if commit.completed and commit.incarnation == settings.incarnation",
        new="if commit.completed",
        killers=(f"{SUCCESSION}::test_a_job_is_not_finished_before_its_view_has_the_rows",),
    ),
)
