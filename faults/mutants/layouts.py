"""Mistakes in views that are laid out by partitions or clustering."""

from __future__ import annotations

from faults.mutants.killers import ADDED_FILES, DECIDED_COLUMNS, OWN_COMMITS, UNIT_CHANGES
from faults.mutants.mutant import Mutant

_MOVES = "test_a_unit_that_moves_to_another_partition_is_removed_where_it_was"

MUTANTS = (
    Mutant(
        name="merge-prunes-the-partitions-of-new-rows",
        breaks="A unit that moves to another partition stays where it was, too.",
        invariant="I1",
        file="airflow_backfill_provider/spark/unit_changes.py",
        old="tombstones = self.rows.filter(F.col(self.is_tombstone))",
        new="tombstones = self.rows.filter(~F.col(self.is_tombstone))",
        killers=(f"{UNIT_CHANGES}::{_MOVES}",),
        spark=True,
    ),
    Mutant(
        name="rows-without-a-partition-value-are-not-looked-for",
        breaks="A row whose partition column is null stays in the view after it changed.",
        invariant="I1",
        file="airflow_backfill_provider/spark/partitions.py",
        old="if None in values:",
        new="if not texts:",
        killers=(f"{UNIT_CHANGES}::{_MOVES}",),
        spark=True,
    ),
    Mutant(
        name="any-expression-is-decided-by-the-key",
        breaks="A merge looks for a changed row in the partition of its new values only.",
        invariant="I1",
        file="airflow_backfill_provider/shapes/row/query.py",
        old="names = {*map(str.lower, available), *self.levels[0].names} - of_key",
        new="names = set[str]()",
        killers=(f"{DECIDED_COLUMNS}::test_of_other_columns_nothing_is_certain",),
    ),
    Mutant(
        name="own-commit-replaces-another",
        breaks="Of two writers of a version, the second one removes what the first one added.",
        invariant="I5",
        file="airflow_backfill_provider/lake/log/own_commits.py",
        old='os.link(staged, log / f"{version:020d}.json")',
        new='os.replace(staged, log / f"{version:020d}.json")',
        killers=(f"{OWN_COMMITS}::test_a_version_is_taken_once",),
    ),
    Mutant(
        name="clustered-tables-checkpoint-is-not-delta's",
        breaks="A checkpoint of a clustered view may be without its clustering, or never comes.",
        invariant="I6",
        file="airflow_backfill_provider/lake/log/added_files.py",
        old="if found.for_deltalake or (table.version() + 1) % found.checkpoint_interval:",
        new="if True:",
        killers=(f"{ADDED_FILES}::test_a_clustered_table_whose_next_version_is_to_have_a_checkpoint_is_left_to_delta",),
    ),
)
