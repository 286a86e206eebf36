"""Mistakes in reading folders of files: values that are cut, and rows that come twice or not at all."""

from __future__ import annotations

from faults.mutants.killers import BALANCED, FILE_ENTRIES, FILE_MOVES, FOLDER_CHANGES, PARQUET_SCHEMA
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="integers-cut",
        breaks="A column of Parquet is read as a type that does not hold all of its values, and Spark cuts them.",
        invariant="I6",
        file="airflow_backfill_provider/sources/files/parquet_schema.py",
        old="return _bits(stored.type) <= _INTEGERS[declared]",
        new="return _bits(stored.type) <= 64",
        killers=(f"{PARQUET_SCHEMA}::test_an_integer_is_never_cut",),
    ),
    Mutant(
        name="moved-file-is-new",
        breaks="The rows of a file that was moved within the folder come twice.",
        invariant="I1",
        file="airflow_backfill_provider/sources/files/moves.py",
        old="moved = [placed for placed in same if placed.file.modified == found.modified]",
        new="moved: list[PlacedFile] = []",
        killers=(f"{FILE_MOVES}::test_a_file_with_the_content_and_the_time_of_one_that_is_gone_was_moved",),
    ),
    Mutant(
        name="same-content-is-moved",
        breaks="Rows that a writer wrote again are taken for those that were read.",
        invariant="I1",
        file="airflow_backfill_provider/sources/files/moves.py",
        old="moved = [placed for placed in same if placed.file.modified == found.modified]",
        new="moved = same",
        killers=(f"{FILE_MOVES}::test_the_same_rows_may_be_written_again",),
    ),
    Mutant(
        name="read-file-corrected",
        breaks="A file changes after its rows were read, and they are read again.",
        invariant="I1",
        file="airflow_backfill_provider/sources/files/source.py",
        old="return self.read is not None and placed.begin >= self.read.get(placed.split, 0)",
        new="return self.read is not None",
        killers=(f"{FOLDER_CHANGES}::test_a_file_may_be_corrected_until_a_row_of_it_is_read",),
    ),
    Mutant(
        name="places-given-anew",
        breaks="The rows of a corrected file get places that a barrier may know as those of other rows.",
        invariant="I2",
        file="airflow_backfill_provider/sources/shared/file_log/entries.py",
        old="ends, number = dict(self.ends), len(self._all)",
        new="ends, number = _ends(self.files), len(self._all)",
        killers=(f"{FILE_ENTRIES}::test_places_of_a_withdrawn_file_stay_empty",),
    ),
    Mutant(
        name="terms-one-by-one",
        breaks="A condition of many terms is no message to a Spark Connect server, and the job stands still.",
        invariant="I4",
        file="airflow_backfill_provider/sources/shared/balanced.py",
        old="middle = len(terms) // 2",
        new="middle = 1",
        killers=(f"{BALANCED}::test_many_terms_make_few_levels",),
    ),
)
