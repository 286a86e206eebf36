"""Mistakes in views of groups whose rows are only appended: rows that count twice, or seem never to have been."""

from __future__ import annotations

from faults.mutants.killers import ADDED_ROWS, DECISION, LOST_ROWS, SHAPE_LIMITS
from faults.mutants.mutant import Mutant

_PACKAGE = "airflow_backfill_provider"
_THROUGH_CRASHES = f"{ADDED_ROWS}::test_chunks_and_appended_rows_are_added_once_through_crashes"

MUTANTS = (
    Mutant(
        name="chunk-of-groups-appended",
        breaks="A chunk gives groups that the view has a second row.",
        invariant="I1",
        file=f"{_PACKAGE}/shapes/group/writers.py",
        old="if rows.context.job_rows.reader.appends_only:",
        new="if False:",
        killers=(_THROUGH_CRASHES,),
        spark=True,
    ),
    Mutant(
        name="chunk-of-groups-with-another-stamp",
        breaks="The rows of a chunk are added again by an attempt that finds the stamp of changes.",
        invariant="I2",
        file=f"{_PACKAGE}/shapes/group/added_rows_writer.py",
        old="self._fold_in(images, snapshot_part(part), identity, barrier)",
        new='self._fold_in(images, "changes", identity, barrier)',
        killers=(_THROUGH_CRASHES,),
        spark=True,
    ),
    Mutant(
        name="groups-of-the-rows-that-are-left",
        breaks="A repair that is pinned when rows go computes groups without them.",
        invariant="I6",
        file=f"{_PACKAGE}/engine/tables.py",
        old="reader = reader.whole_since(settings.first_offset)",
        new="pass",
        killers=(f"{ADDED_ROWS}::test_groups_of_rows_that_are_gone_are_neither_verified_nor_repaired",),
        spark=True,
    ),
    Mutant(
        name="groups-compared-with-the-rows-that-are-left",
        breaks="A verification takes right groups for wrong ones, and a repair makes them wrong.",
        invariant="I6",
        file=f"{_PACKAGE}/jobs/lost_rows.py",
        old="if SHAPES.named(settings.shape).has_keys or (splits := upstream.splits) is None:",
        new="if True:",
        killers=(f"{LOST_ROWS}::test_groups_cannot_be_computed_again_once_rows_are_gone_that_they_count",),
    ),
    Mutant(
        name="impossible-repair-pinned",
        breaks="A repair of groups whose rows are gone is pinned in every barrier, and no epoch succeeds again.",
        invariant="I4",
        file=f"{_PACKAGE}/protocol/decision.py",
        old="return Rewrite(left_out=self.former.lost) if self.former.lost else asked",
        new="return asked",
        killers=(f"{DECISION}::test_a_repair_of_groups_whose_rows_are_gone_is_left_out_with_a_warning",),
    ),
    Mutant(
        name="two-task-runs-add-to-one-group",
        breaks="Two parts of a chunk are added to the same state, and the one that is written first is lost.",
        invariant="I1",
        file=f"{_PACKAGE}/core/shape_limits.py",
        old="if self.shape.single_part and parallelism > 1 and not self._reads_units:",
        new="if self.shape.single_part and parallelism > 1 and not (self._reads_units or self._adds_rows):",
        killers=(f"{SHAPE_LIMITS}::test_rows_that_are_only_appended_are_added_to_groups_by_one_task_run",),
    ),
)
