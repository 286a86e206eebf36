"""Mistakes in the answers why a view has a row."""

from __future__ import annotations

from faults.mutants.killers import ROW_COMMITS, ROW_CONDITIONS, ROW_TRACE
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="copied-row-counts-as-written",
        breaks="An answer names a commit that changed another row of the same file.",
        invariant="I6",
        file="airflow_backfill_provider/lake/tables/row_trace.py",
        old="if not copies_rows(actions):",
        new="if True:",
        killers=(f"{ROW_TRACE}::test_a_row_that_an_update_only_copied_belongs_to_the_commit_before",),
    ),
    Mutant(
        name="lost-files-count-as-certain",
        breaks="An answer is certain although the files that would tell are gone.",
        invariant="I6",
        file="airflow_backfill_provider/lake/tables/row_trace.py",
        old="gone = error",
        new="gone = None",
        killers=(f"{ROW_TRACE}::test_without_the_files_from_before_a_row_is_at_most_as_new",),
    ),
    Mutant(
        name="compaction-that-counts-no-copies-wrote-the-rows",
        breaks="After a compaction, all rows count as written by it.",
        invariant="I6",
        file="airflow_backfill_provider/lake/log/row_commits.py",
        old='return not counts or any(count != "0" for count in counts)',
        new='return any(count != "0" for count in counts)',
        killers=(f"{ROW_COMMITS}::test_a_commit_that_replaces_files_may_have_copied_rows",),
    ),
    Mutant(
        name="texts-are-compared-with-numbers",
        breaks="A condition is decided that Spark would decide otherwise.",
        invariant="I6",
        file="airflow_backfill_provider/shapes/row/conditions.py",
        old="if len(kinds) != 1:",
        new="if False:",
        killers=(f"{ROW_CONDITIONS}::test_everything_else_is_left_to_spark",),
    ),
)
