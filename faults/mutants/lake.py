"""Mistakes in what ``lake`` reads of data files: the counts of their rows, and their keys."""

from __future__ import annotations

from faults.mutants.killers import CHUNK_PLAN, HIDDEN_ROWS, MOVED_VALUES, ROW_COUNTS
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="missing-count-is-none",
        breaks="A file without a row count in the log has no rows.",
        invariant="I4",
        file="airflow_backfill_provider/lake/files/row_counts.py",
        old="return file.rows is not None and 0 < file.rows <= file.size * MOST_ROWS_PER_BYTE",
        new="return True",
        killers=(f"{ROW_COUNTS}::test_a_missing_or_impossible_count_is_read_from_the_file",),
    ),
    Mutant(
        name="hidden-rows-planned",
        breaks="Rows that a deletion vector hides are planned.",
        invariant="I4",
        file="airflow_backfill_provider/lake/tables/data_files.py",
        old="return stored._replace(rows=stored.rows - hidden)",
        new="return stored",
        killers=(f"{HIDDEN_ROWS}::test_rows_that_a_deletion_vector_hides_are_not_counted",),
    ),
    Mutant(
        name="hidden-keys-counted",
        breaks="Keys of rows that a deletion vector hides are read.",
        invariant="I4",
        file="airflow_backfill_provider/lake/tables/chunk_keys.py",
        old="(self._masks or {}).get(file.path) if file.hidden_rows or not file.is_exact else None",
        new="None",
        killers=(f"{CHUNK_PLAN}::test_rows_that_deletion_vectors_hide_are_not_planned_for",),
    ),
    Mutant(
        name="copied-rows-believed",
        breaks="Rows that an UPDATE, MERGE or DELETE copies may get other partition values.",
        invariant="I6",
        file="airflow_backfill_provider/lake/log/moved_values.py",
        old="return bool(changes) and log.has_vague_times() and _moves_beside(log, changes, kinds_of_changes)",
        new="return False",
        killers=(f"{MOVED_VALUES}::test_rows_that_a_statement_only_copies_keep_their_values",),
    ),
)
