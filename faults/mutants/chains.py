"""Mistakes in what a job does whose upstream is the view of another job."""

from __future__ import annotations

from faults.mutants.mutant import Mutant

CHAIN = "tests/unit/jobs/test_chain.py"
FRONTIER = "tests/unit/jobs/test_chain_frontier.py"
FRONTIER_MODULE = "airflow_backfill_provider/jobs/chain_frontier.py"
INJECT = "airflow_backfill_provider/protocol/inject.py"

MUTANTS = (
    Mutant(
        name="an-unfinished-view-is-read",
        breaks="A barrier is pinned at a version of a view that is not finished.",
        invariant="I7",
        file=INJECT,
        old="    if view is not None and not view.is_finished:\n",
        new="    if False:\n",
        killers=(f"{CHAIN}::test_a_scheduled_run_reads_no_version_from_before_the_finish",),
    ),
    Mutant(
        name="finished-by-now-is-finished-then",
        breaks="A version from before the finish counts as finished because the view is finished by now.",
        invariant="I7",
        file=INJECT,
        old="described.view if described.offset == newest else upstream.view_at(newest)",
        new="upstream.view_at()",
        killers=(f"{CHAIN}::test_a_scheduled_run_reads_no_version_from_before_the_finish",),
    ),
    Mutant(
        name="a-job-is-created-on-an-unfinished-view",
        breaks="A job is created on a view that is not finished.",
        invariant="I6",
        file="airflow_backfill_provider/jobs/first_look.py",
        old="        described = upstream.at()\n        require_finished(described.view, storage_options)\n",
        new="        described = upstream.at()\n",
        killers=(
            (
                "tests/unit/cli/commands/test_chains.py::"
                "test_an_unfinished_upstream_is_waited_for_before_anything_is_written"
            ),
        ),
    ),
    Mutant(
        name="chain-by-commit-times",
        breaks="A scheduled run reads a view as of its commits, and misses the epoch of the same interval.",
        invariant="I3",
        file=FRONTIER_MODULE,
        old="    if log is None:\n",
        new="    if True:\n",
        killers=(f"{FRONTIER}::test_jobs_of_a_chain_see_the_same_instant_of_the_root",),
    ),
    Mutant(
        name="uncommitted-epoch-seen",
        breaks="A scheduled run reads a version of an epoch of the view that is not committed.",
        invariant="I3",
        file="airflow_backfill_provider/jobs/view_logs.py",
        old=" and not following.changes_data:\n",
        new=":\n",
        killers=(
            f"{FRONTIER}::test_an_epoch_that_changed_no_row_counts_too_and_one_that_is_not_committed_does_not",
            f"{FRONTIER}::test_the_version_is_that_of_the_newest_epoch_that_looked_no_further",
        ),
    ),
    Mutant(
        name="feed-against-the-users-word",
        breaks="The finish switches a change feed on that the job's definition switches off.",
        invariant="I6",
        file="airflow_backfill_provider/lake/tables/view_feed.py",
        old="named or impossible",
        new="impossible",
        killers=(
            (
                "tests/unit/lake/tables/test_view_feed.py::"
                "test_the_feed_comes_with_the_finish_unless_the_job_names_it_or_a_column_forbids_it"
            ),
        ),
    ),
    Mutant(
        name="what-the-newest-read-counts-as-seen",
        breaks="A view that has not read the newest epoch of the view upstream counts as new as that one.",
        invariant="I3",
        file=FRONTIER_MODULE,
        old="Offset(commit.view_version) <= offset",
        new="True",
        killers=(
            f"{FRONTIER}::test_the_lag_behind_the_root_is_the_age_of_the_oldest_change_there_that_the_view_may_lack",
        ),
    ),
    Mutant(
        name="rebuild-over-the-former-table",
        breaks="A rebuild that grows over a table which was replaced meanwhile is kept for ever.",
        invariant="I6",
        file="airflow_backfill_provider/jobs/succession.py",
        old="\n        or _reads_former_table(before.successor, store, upstream)",
        new="",
        killers=(
            "tests/unit/jobs/test_succession.py::test_a_rebuild_over_a_table_that_was_replaced_meanwhile_starts_over",
        ),
    ),
    Mutant(
        name="cancelled-job-rebuilt-downstream",
        breaks="A rebuild upstream brings a cancelled job back.",
        invariant="I6",
        file="airflow_backfill_provider/operators/rebuild.py",
        old="not settings.cancelled and ",
        new="",
        killers=(
            "tests/unit/operators/test_chains.py::test_a_cancelled_job_and_one_over_another_table_are_not_rebuilt",
        ),
    ),
)
