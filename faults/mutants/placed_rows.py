"""Mistakes in finding rows at their places, and in the commit that replaces them there."""

from __future__ import annotations

from faults.mutants.killers import PLACED_ROWS, REPLACED_ROWS, SCANNED_ROWS, SMALL_CHANGES
from faults.mutants.mutant import Mutant

_FILE = "airflow_backfill_provider/lake/log/replaced_rows.py"

MUTANTS = (
    Mutant(
        name="rows-shown-again",
        breaks="A row that an earlier epoch removed is in the view again.",
        invariant="I1",
        file=_FILE,
        old="return _File(entry, total, before | rows)",
        new="return _File(entry, total, rows)",
        killers=(f"{REPLACED_ROWS}::test_rows_that_were_hidden_before_stay_hidden",),
    ),
    Mutant(
        name="rows-replaced-where-they-are-no-longer",
        breaks="Another commit moves rows, and others go that now lie at their places.",
        invariant="I1",
        file=_FILE,
        old="committed = _commit(location, version + 1, actions)",
        new="committed = _commit(location, DeltaTable(location).version() + 1, actions)",
        killers=(f"{REPLACED_ROWS}::test_another_commit_at_the_last_moment_wins",),
    ),
    Mutant(
        name="rows-replaced-twice",
        breaks="A delayed attempt replaces rows that a later epoch wrote.",
        invariant="I2",
        file=_FILE,
        old="if table.version() != version or (seen is not None and seen >= transaction.version):",
        new="if table.version() != version:",
        killers=(f"{REPLACED_ROWS}::test_nothing_is_written_if",),
    ),
    Mutant(
        name="removed-rows-in-no-feed",
        breaks="A view on the view keeps what came of rows that are gone.",
        invariant="I7",
        file=_FILE,
        old="if table.has_feed and gone.num_rows:",
        new="if table.has_feed and come.num_rows > gone.num_rows:",
        killers=(f"{REPLACED_ROWS}::test_rows_go_and_come_in_one_commit",),
    ),
    Mutant(
        name="updates-told-as-removals",
        breaks="A reader of the view's change feed sees a row go that is still there.",
        invariant="I7",
        file=_FILE,
        old="pc.if_else(is_updated, *kinds)",
        new="pc.if_else(is_updated, *reversed(kinds))",
        killers=(f"{REPLACED_ROWS}::test_rows_go_and_come_in_one_commit",),
    ),
    Mutant(
        name="appeared-keys-replaced",
        breaks="The upstream has two rows with one key, and the newer one replaces the other in the view.",
        invariant="I1",
        file="airflow_backfill_provider/shapes/row/writer.py",
        old="repeated = with_keys(old, keys(changes.filter(F.col(own.appeared))), outputs)",
        new="repeated = with_keys(old, keys(changes.limit(0)), outputs)",
        killers=(f"{SMALL_CHANGES}::test_rows_without_nested_values_are_replaced_at_their_places",),
        spark=True,
    ),
    Mutant(
        name="names-of-files-as-addresses",
        breaks="The rows of a file with an unusual name are not found at their places.",
        invariant="I1",
        file="airflow_backfill_provider/spark/placed_rows.py",
        old='unquote(file.rpartition("/")[2])',
        new='file.rpartition("/")[2]',
        killers=(f"{PLACED_ROWS}::test_rows_go_from_files_by_their_names_on_disk",),
    ),
    Mutant(
        name="first-row-of-a-file-not-read",
        breaks="The first row of each file of a table with deletion vectors is missing.",
        invariant="I1",
        file="airflow_backfill_provider/sources/shared/hidden_rows.py",
        old=".getField(ROW_INDEX) >= 0)",
        new=".getField(ROW_INDEX) > 0)",
        killers=(f"{SCANNED_ROWS}::test_only_the_numbers_of_rows_are_read_of_a_files_metadata",),
        spark=True,
    ),
)
