"""Mistakes in what a job reads of views that are made of common tables."""

from __future__ import annotations

from faults.mutants.mutant import Mutant

FRONTIERS = "tests/unit/core/epoch/test_frontiers.py"
FRONTIERS_MODULE = "airflow_backfill_provider/core/epoch/frontiers.py"
DIAMONDS = "tests/unit/jobs/test_diamonds.py"
DIAMONDS_MODULE = "airflow_backfill_provider/jobs/diamonds.py"
LOGS_MODULE = "airflow_backfill_provider/jobs/view_logs.py"

MUTANTS = (
    Mutant(
        name="at-or-before-the-lesser-frontier",
        breaks="Each view of a diamond is read at its newest epoch at or before the lesser frontier.",
        invariant="I1",
        file=FRONTIERS_MODULE,
        old="        if all(looked.is_within(least) for looked in chosen.values()):\n",
        new="        if bounds or all(looked.is_within(least) for looked in chosen.values()):\n",
        killers=(f"{FRONTIERS}::test_the_lesser_frontier_is_no_bound_that_is_enough",),
    ),
    Mutant(
        name="newest-version-of-each-root-that-both-have",
        breaks="Views of two common tables are read at epochs of which each has one table at a common version.",
        invariant="I1",
        file=FRONTIERS_MODULE,
        old="        return all(offset <= bounds[root] for",
        new="        return not bounds or any(offset <= bounds[root] for",
        killers=(f"{FRONTIERS}::test_a_version_that_both_logs_have_of_each_root_may_be_in_no_pair_of_epochs",),
    ),
    Mutant(
        name="an-equal-instant-is-enough",
        breaks="Views of a common table are read at epochs that looked up to one instant, whatever they saw.",
        invariant="I1",
        file=LOGS_MODULE,
        old="frontier=merged(chosen),",
        new='frontier={"T": Offset(int(epoch.barrier.injected_at.timestamp()))},',
        killers=(f"{DIAMONDS}::test_views_that_looked_up_to_one_instant_may_differ",),
    ),
    Mutant(
        name="diamonds-at-their-newest-epochs",
        breaks="Each view of a diamond is read at its newest epoch.",
        invariant="I1",
        file=FRONTIERS_MODULE,
        old="        if all(looked.is_within(least) for looked in chosen.values()):\n",
        new="        if True:\n",
        killers=(f"{DIAMONDS}::test_two_views_of_a_table_are_read_where_both_have_one_version_of_it",),
    ),
    Mutant(
        name="epochs-without-rows-are-no-entries",
        breaks="An epoch that changed no row of a view does not count, so another view of the table waits for ever.",
        invariant="I4",
        file=LOGS_MODULE,
        old="            if whole and commit.view_version is not None:\n",
        new="            if whole and commit.view_version is not None and commit.upstream_output_row_count:\n",
        killers=(f"{DIAMONDS}::test_an_epoch_without_rows_is_an_entry_too",),
    ),
    Mutant(
        name="tables-beside-a-view-are-read-as-of-now",
        breaks="A table beside a view is read further than the view has looked.",
        invariant="I1",
        file=DIAMONDS_MODULE,
        old="        if not until.lacks or self._is_root(name, chosen):\n",
        new="        if True:\n",
        killers=(
            f"{DIAMONDS}::test_another_table_beside_a_view_is_read_as_of_the_instant_up_to_which_the_view_looked",
        ),
    ),
    Mutant(
        name="an-epoch-that-is-not-recorded-yet",
        breaks="A view that read a version of another one before its epoch was recorded counts as of the one before.",
        invariant="I1",
        file=LOGS_MODULE,
        old="        if left is None or (left < reached and self.source.has_changes(left, reached)):\n",
        new="        if left is None:\n",
        killers=("tests/unit/jobs/test_view_logs.py::test_a_version_whose_epoch_is_not_recorded_yet_has_no_frontier",),
    ),
    Mutant(
        name="one-dag-run-two-instants",
        breaks="The jobs of a DAG that meet in a view read at the newest versions, each at its own time.",
        invariant="I4",
        file="airflow_backfill_provider/dag_factory.py",
        old="until=_ONE_INSTANT if meets else None,",
        new="until=None,",
        killers=("tests/unit/test_dag_factory.py::test_jobs_that_meet_in_a_view_read_as_of_one_instant",),
    ),
)
