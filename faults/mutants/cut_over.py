"""Mistakes in what goes live only after an approval."""

from __future__ import annotations

from faults.mutants.killers import CUT_OVER
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="approval-of-anything",
        breaks="An approval of one rebuild lets another one go live.",
        invariant="I6",
        file="airflow_backfill_provider/core/epoch/approvals.py",
        old="settings.approved is not None and settings.approved.subject == subject",
        new="settings.approved is not None",
        killers=(f"{CUT_OVER}::test_another_rebuild_voids_an_approval",),
    ),
    Mutant(
        name="approval-of-a-former-proposal",
        breaks="A query that was approved once can be approved again by what was seen then.",
        invariant="I6",
        file="airflow_backfill_provider/core/epoch/approvals.py",
        old="job.definition(), settings.proposed.sequence)",
        new="job.definition())",
        killers=(f"{CUT_OVER}::test_a_query_that_was_approved_once_waits_again_if_it_is_proposed_again",),
    ),
    Mutant(
        name="handover-without-an-approval",
        breaks="A rebuild that nobody has approved takes the view's place.",
        invariant="I6",
        file="airflow_backfill_provider/jobs/succession.py",
        old="    if not is_released(settings, grown.incarnation):\n",
        new="    if False:\n",
        killers=(f"{CUT_OVER}::test_a_rebuild_waits_and_stays_fresh_until_it_is_approved",),
    ),
    Mutant(
        name="backfill-marked-without-an-approval",
        breaks="A first backfill is marked as finished though nobody has approved it.",
        invariant="I6",
        file="airflow_backfill_provider/protocol/epoch_run.py",
        old="                    if not barrier.withheld:\n",
        new="                    if True:\n",
        killers=(f"{CUT_OVER}::test_a_first_backfill_that_is_ready_is_not_finished",),
    ),
    Mutant(
        name="mark-taken-back-by-a-delayed-attempt",
        breaks="A delayed attempt from before the approval takes back the mark that the view is finished.",
        invariant="I3",
        file="airflow_backfill_provider/protocol/epoch_run.py",
        old="                if state.completed:\n",
        new="                if state.completed and not barrier.withheld:\n",
        killers=(f"{CUT_OVER}::test_a_delayed_attempt_from_before_the_approval_takes_no_mark_back",),
    ),
    Mutant(
        name="approved-backfill-left-idle",
        breaks="An approved backfill is not marked as finished as long as the upstream does not change.",
        invariant="I4",
        file="airflow_backfill_provider/protocol/decision.py",
        old="        return begins or publishes_view(self.settings, self.commit)\n",
        new="        return begins\n",
        killers=(f"{CUT_OVER}::test_an_approved_backfill_is_marked_by_the_next_epoch_even_if_nothing_changed",),
    ),
    Mutant(
        name="given-up-before-its-time",
        breaks="A rebuild is given up as soon as it is ready.",
        invariant="I4",
        file="airflow_backfill_provider/jobs/cut_over.py",
        old=" or now < status.given_up_at:\n",
        new=":\n",
        killers=(f"{CUT_OVER}::test_a_rebuild_that_nobody_approves_in_time_is_given_up",),
    ),
)
