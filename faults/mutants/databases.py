"""Mistakes of what reads a database: landing its log, and reading its rows ahead."""

from __future__ import annotations

from faults.mutants.killers import (
    CDC_PLANNING,
    LOGGED_CHANGES,
    PARTITIONS,
    POSTGRES_HISTORIES,
    POSTGRES_OUTAGES,
    POSTGRES_SEMANTICS,
)
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="commit-at-its-own-offset",
        breaks="A transaction whose commit begins where a window ends is in neither window.",
        invariant="I1",
        file="airflow_backfill_provider/sources/postgres/logged_changes.py",
        old="return lsn + 1",
        new="return lsn",
        killers=(f"{LOGGED_CHANGES}::test_the_offset_is_after_the_first_byte_of_the_commit",),
    ),
    Mutant(
        name="consumed-by-another",
        breaks="Changes that something else took out of the slot are not missed.",
        invariant="I6",
        file="airflow_backfill_provider/sources/postgres/landing.py",
        old="if confirmed > after:",
        new="if confirmed > after + (1 << 60):",
        killers=(f"{POSTGRES_SEMANTICS}::test_changes_that_something_else_consumed_are_a_gap",),
        spark=True,
    ),
    Mutant(
        name="part-truncated-as-a-whole",
        breaks="A TRUNCATE of one partition empties the whole view.",
        invariant="I1",
        file="airflow_backfill_provider/sources/postgres/partitions.py",
        old="if int(table) not in oids and not set(leaves) <= set(oids):",
        new="if int(table) not in oids and not set(leaves) <= set(leaves):",
        killers=(f"{PARTITIONS}::test_a_truncated_part_is_named",),
    ),
    Mutant(
        name="unseen-commit-forgotten",
        breaks="A commit that is logged before the reading, and visible only after it, is lost.",
        invariant="I1",
        file="airflow_backfill_provider/sources/postgres/present.py",
        old="return ReadingStart(Offset(self._seen_in(unseen, newest)), server_run)",
        new="return ReadingStart(Offset(newest), server_run)",
        killers=(f"{POSTGRES_OUTAGES}::test_a_commit_that_is_logged_and_not_visible_yet_is_not_lost",),
        spark=True,
    ),
    Mutant(
        name="first-change-of-a-transaction",
        breaks="If a transaction changes a row twice, its first change counts.",
        invariant="I1",
        file="airflow_backfill_provider/sources/change_log/reader.py",
        old="(F.col(_FIRST) & is_old) | F.col(_LAST)",
        new="(F.col(_FIRST) & is_old) | F.col(_FIRST)",
        killers=(f"{POSTGRES_HISTORIES}::test_random_histories[1]",),
        spark=True,
    ),
    Mutant(
        name="read-rows-not-settled",
        breaks="Rows that were read ahead go to the view without the changes since.",
        invariant="I1",
        file="airflow_backfill_provider/strategies/cdc/reader.py",
        old="after = min(reading.changes_after for reading in readings)",
        new="after = up_to",
        killers=(f"{POSTGRES_HISTORIES}::test_random_histories[1]",),
        spark=True,
    ),
    Mutant(
        name="rows-newer-than-the-window",
        breaks="A window that ends in the past gets rows that were read later.",
        invariant="I1",
        file="airflow_backfill_provider/strategies/cdc/planning.py",
        old="return seen is not None and seen <= situation.offset",
        new="return seen is not None",
        killers=(f"{CDC_PLANNING}::test_rows_that_were_read_after_the_window_s_end_wait",),
    ),
)
