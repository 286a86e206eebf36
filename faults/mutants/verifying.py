"""Mistakes in reading past Delta, which a verification must find, and in how it reads."""

from __future__ import annotations

from faults.mutants.killers import ANOTHER_SHAPE, APPEND_ONLY, APPENDED_COMMITS, UPSERTS, VERIFIED_FILES
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="char-not-padded",
        breaks="A column of type CHAR has the texts as another writer stored them, without Delta's padding.",
        invariant="I1",
        file="airflow_backfill_provider/sources/append_only/reader.py",
        old="return {name: metadata[name] for name in (CHAR_OR_VARCHAR,) if name in metadata}",
        new="return {}",
        killers=(f"{APPEND_ONLY}::test_values_are_those_of_deltas_own_scan",),
        spark=True,
    ),
    Mutant(
        name="partition-value-dropped",
        breaks="The rows of files that are appended have null in place of their partition values.",
        invariant="I1",
        file="airflow_backfill_provider/sources/append_only/commits.py",
        old="details=json.dumps(partition_values(added)),",
        new="details=json.dumps({}),",
        killers=(f"{APPENDED_COMMITS}::test_files_with_rows_are_appended_in_the_order_of_the_log",),
    ),
    Mutant(
        name="verified-by-the-reader-of-epochs",
        breaks="A verification reads data files as epochs do, so it has the same mistakes and finds the view equal.",
        invariant="I1",
        file="airflow_backfill_provider/engine/expected.py",
        old="self._reader.rows_to_verify(offset)",
        new="self._reader.rows(offset)",
        killers=(
            f"{APPEND_ONLY}::test_a_verification_does_not_share_the_mistakes_of_epochs",
            f"{UPSERTS}::test_a_verification_finds_the_last_row_of_a_key_in_a_way_of_its_own",
        ),
        spark=True,
    ),
    Mutant(
        name="verified-with-the-values-of-epochs",
        breaks="A verification takes partition values from the file log, where epochs noted them.",
        invariant="I1",
        file="airflow_backfill_provider/sources/append_only/verified_files.py",
        old="entries = (_entry(file, logged.get(file.path)) for file in files)",
        new="entries = (_entry(file, None) for file in files)",
        killers=(f"{VERIFIED_FILES}::test_partition_values_are_those_of_the_tables_log",),
    ),
    Mutant(
        name="verified-without-a-word",
        breaks="A verification that shares partition values with epochs does not say so.",
        invariant="I1",
        file="airflow_backfill_provider/sources/append_only/verified_files.py",
        old="self._warn_of(sorted(wanted - logged.keys()))",
        new="pass",
        killers=(f"{VERIFIED_FILES}::test_what_only_the_file_log_knows_is_named",),
    ),
    Mutant(
        name="infinity-within-tolerance",
        breaks="A sum that is infinite in the view, and only there, is found equal.",
        invariant="I1",
        file="airflow_backfill_provider/engine/inexact.py",
        old="is_finite & (F.abs(one - other) <= allowed)",
        new="(F.abs(one - other) <= allowed)",
        killers=(f"{ANOTHER_SHAPE}::test_a_sum_of_floats_is_equal_up_to_its_last_digits",),
        spark=True,
    ),
)
