"""Mistakes in finding out without Spark that no two rows have one key."""

from __future__ import annotations

from faults.mutants.killers import KEY_NUMBERS, STORED_KEYS
from faults.mutants.mutant import Mutant

_NUMBERS = "airflow_backfill_provider/spark/key_numbers.py"

MUTANTS = (
    Mutant(
        name="keys-of-hidden-rows",
        breaks="Rows that a deletion vector hides are counted, so the epoch that finishes the view is refused.",
        invariant="I4",
        file="airflow_backfill_provider/lake/tables/stored_keys.py",
        old="masks.get(file.path)",
        new="None",
        killers=(f"{STORED_KEYS}::test_rows_that_a_deletion_vector_hides_have_no_keys",),
    ),
    Mutant(
        name="equal-keys-in-order",
        breaks="Two rows with one key that follow each other are not noticed.",
        invariant="I6",
        file=_NUMBERS,
        old="(values[1:] > values[:-1])",
        new="(values[1:] >= values[:-1])",
        killers=(f"{KEY_NUMBERS}::test_rows_are_counted_if_no_key_is_there_twice",),
    ),
    Mutant(
        name="files-that-overlap-by-a-key",
        breaks="A key that ends one file and begins the next one is not noticed.",
        invariant="I6",
        file=_NUMBERS,
        old="before[-1] < after[0]",
        new="before[-1] <= after[0]",
        killers=(f"{KEY_NUMBERS}::test_files_may_overlap_and_be_in_any_order",),
    ),
    Mutant(
        name="new-keys-counted-once-in-a-file",
        breaks="A new key that one file has twice is not noticed.",
        invariant="I6",
        file=_NUMBERS,
        old="return near[np.isin(near, known)]",
        new="return np.unique(near[np.isin(near, known)])",
        killers=(f"{KEY_NUMBERS}::test_of_wanted_keys_none_is_there_twice",),
    ),
)
