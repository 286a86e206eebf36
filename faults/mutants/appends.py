"""Mistakes in appends whose files deltalake adds: written twice, written in part, or skipped by readers."""

from __future__ import annotations

from faults.mutants.killers import ADDED_FILES, APPENDING, PLAIN_TABLES, WRITTEN_STATISTICS
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="transaction-not-looked-for",
        breaks="A part that the view has already is added again.",
        invariant="I2",
        file="airflow_backfill_provider/lake/log/added_files.py",
        old="if seen is not None and seen >= transaction.version:",
        new="if False:",
        killers=(f"{ADDED_FILES}::test_a_transaction_that_the_table_has_seen_adds_nothing",),
    ),
    Mutant(
        name="unknown-property-is-harmless",
        breaks="Rows get into a view although they violate its constraint.",
        invariant="I6",
        file="airflow_backfill_provider/lake/log/plain_tables.py",
        old="if not is_known or not _PROPERTIES.issuperset(properties) or metadata.partition_columns:",
        new="if not is_known or metadata.partition_columns:",
        killers=(f"{PLAIN_TABLES}::test_a_table_that_asks_for_something_is_not",),
    ),
    Mutant(
        name="bounds-without-nan",
        breaks="A reader skips a file that has NaN, because its bounds do not.",
        invariant="I6",
        file="airflow_backfill_provider/lake/log/written_statistics.py",
        old="return _number(low) if is_decimal(kind) else None",
        new="return _number(low) if is_decimal(kind) else low",
        killers=(f"{WRITTEN_STATISTICS}::test_some_types_have_no_bounds",),
    ),
    Mutant(
        name="instants-cut-off",
        breaks="The upper bound of instants lies before the last one.",
        invariant="I6",
        file="airflow_backfill_provider/lake/log/written_statistics.py",
        old='if kind.startswith("timestamp") and high.microsecond % 1000:',
        new="if False:",
        killers=(f"{WRITTEN_STATISTICS}::test_instants_are_rounded_outwards_to_milliseconds",),
    ),
    Mutant(
        name="running-attempt-cleaned-up",
        breaks="The files of an attempt that still runs are removed, and it may commit those that it still finds.",
        invariant="I2",
        file="airflow_backfill_provider/spark/staged_files.py",
        old='if int(left.name.removeprefix(prefix).partition("-")[0]) < before:',
        new="if True:",
        killers=(f"{APPENDING}::test_what_killed_attempts_left_is_removed_once_their_epoch_is_over",),
        spark=True,
    ),
)
