"""Mistakes in what a view keeps of rows that its query no longer gives."""

from __future__ import annotations

from faults.mutants.killers import FORMER_ROWS, FORMER_UNITS, KEPT_VIEWS
from faults.mutants.mutant import Mutant

_UNITS = "airflow_backfill_provider/spark/former_units.py"
_EQUAL_ROWS = f"{FORMER_UNITS}::test_rows_that_equal_each_other_begin_and_end_one_by_one"
_FILE = "airflow_backfill_provider/spark/former_rows.py"
_WINDOWS = f"{KEPT_VIEWS}::test_what_is_kept_does_not_depend_on_the_windows"
_SINCE = "tests/unit/sources/delta/test_windows_followed_since.py"
_EXAMPLE = f"{KEPT_VIEWS}::test_the_worked_example_of_the_page"

MUTANTS = (
    Mutant(
        name="history-since-vacuumed-versions",
        breaks="A job begins at a version of which files are gone.",
        invariant="I6",
        file="airflow_backfill_provider/lake/log/version_files.py",
        old="if actions is None or not _are_there(log, _needed(actions)):",
        new="if actions is None:",
        killers=(f"{_SINCE}::test_a_vacuumed_table_since_the_last_file_that_it_removed",),
    ),
    Mutant(
        name="former-rows-taken-for-present-ones",
        breaks="A job that does not say which rows of a history it reads counts those that have ended.",
        invariant="I6",
        file="airflow_backfill_provider/jobs/resolution.py",
        old="if not {*keep.columns} & {*used}:",
        new="if not {*keep.columns}:",
        killers=("tests/unit/jobs/test_former_rows.py::test_a_job_that_reads_former_rows_has_to_say_which",),
    ),
    Mutant(
        name="all-rows-of-a-touched-group-begin",
        breaks="A row of a group that an epoch leaves as it was ends and begins again.",
        invariant="I1",
        file=_UNITS,
        old="stays = F.col(number) <= F.col(counterparts)",
        new="stays = F.lit(False)",
        killers=(_EQUAL_ROWS,),
        spark=True,
    ),
    Mutant(
        name="equal-rows-are-one",
        breaks="Of two equal rows, one of which goes, none ends.",
        invariant="I1",
        file=_UNITS,
        old="stays = F.col(number) <= F.col(counterparts)",
        new="stays = F.col(counterparts) > 0",
        killers=(_EQUAL_ROWS,),
        spark=True,
    ),
    Mutant(
        name="deleted-groups-leave-nothing",
        breaks="A group that is gone does not keep its last rows.",
        invariant="I1",
        file=_UNITS,
        old=".filter(~is_old | ~F.col(flag))",
        new=".filter(~is_old)",
        killers=(_EQUAL_ROWS,),
        spark=True,
    ),
    Mutant(
        name="two-changes-become-one",
        breaks="Of two changes in one window, the history has only the second.",
        invariant="I1",
        file="airflow_backfill_provider/spark/net_changes.py",
        old="counted.withColumn(is_left, ~F.lead(offset).over(in_order).eqNullSafe(offset))",
        new="counted.withColumn(is_left, F.lead(offset).over(in_order).isNull())",
        killers=(_EXAMPLE,),
        spark=True,
    ),
    Mutant(
        name="deleted-rows-stay-current",
        breaks="A row that the upstream removed never ends.",
        invariant="I1",
        file=_FILE,
        old=".otherwise(before)",
        new=".otherwise(F.lit(False))",
        killers=(_WINDOWS,),
        spark=True,
    ),
    Mutant(
        name="ended-rows-are-current",
        breaks="A row that has ended still counts as current.",
        invariant="I1",
        file=_FILE,
        old="withColumn(IS_CURRENT, F.col(VALID_TO).isNull())",
        new="withColumn(IS_CURRENT, F.lit(True))",
        killers=(_WINDOWS,),
        spark=True,
    ),
    Mutant(
        name="equal-rows-begin-again",
        breaks="A change of a column that the query does not use begins a new row.",
        invariant="I1",
        file=_FILE,
        old=".when(is_present, ~before | is_another)",
        new=".when(is_present, F.lit(True))",
        killers=(_WINDOWS,),
        spark=True,
    ),
    Mutant(
        name="mark-stays",
        breaks="A row that came back is still marked as deleted.",
        invariant="I1",
        file=_FILE,
        old="is_last = is_next.over(in_order).isNull() | (",
        new="is_last = F.lag(is_present).over(in_order).isNull() | (",
        killers=(_WINDOWS,),
        spark=True,
    ),
    Mutant(
        name="rows-begin-after-they-were-read",
        breaks="A row that was read with history is not there at the version that it was read as of.",
        invariant="I1",
        file="airflow_backfill_provider/shapes/row/former_rows.py",
        old="began_at(job.valid_by, barrier.chunk_offset, self._log)",
        new="began_at(job.valid_by, barrier.chunk_offset, self._log) + 1",
        killers=(_EXAMPLE,),
        spark=True,
    ),
    Mutant(
        name="appeared-key-is-an-end",
        breaks="A second row of a key ends the first one in the view, and nobody is told.",
        invariant="I6",
        file=_FILE,
        old="F.col(self._named(_IS_REPEATED)), F.raise_error",
        new="F.lit(False), F.raise_error",
        killers=(f"{KEPT_VIEWS}::test_a_key_that_appears_twice_fails",),
        spark=True,
    ),
    Mutant(
        name="histories-overlap",
        breaks="A verification does not see two rows of a key at one version.",
        invariant="I6",
        file=_FILE,
        old="(ends.isNull() | (ends > follower))",
        new="(ends.isNull() & (ends > follower))",
        killers=(f"{KEPT_VIEWS}::test_rows_that_contradict_each_other_are_found",),
        spark=True,
    ),
    Mutant(
        name="history-lost-by-a-rebuild",
        breaks="A rebuild drops rows that nobody can compute again.",
        invariant="I6",
        file="airflow_backfill_provider/jobs/former_rows.py",
        old="if discard_history or not keep.keeps_former_rows or not has_rows:",
        new="if discard_history or not keep.keeps_former_rows or has_rows:",
        killers=(f"{FORMER_ROWS}::test_a_rebuild_has_to_say_that_former_rows_may_be_lost",),
    ),
)
