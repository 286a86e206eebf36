"""Mistakes in slices: which rows a touched unit is computed from, and what of it goes."""

from __future__ import annotations

from faults.mutants.killers import GROUP_VIEWS, UNIT_CHANGES
from faults.mutants.mutant import Mutant

_PACKAGE = "airflow_backfill_provider/shapes/group"
_FOLLOWED = f"{GROUP_VIEWS}::test_groups_follow_the_upstream_through_changes_and_crashes"
_REPAIRED = f"{GROUP_VIEWS}::test_a_wrong_group_is_found_and_repaired_and_a_right_one_is_not_written"

MUTANTS = (
    Mutant(
        name="stored-groups-filtered-by-having",
        breaks="A group that HAVING drops from now on stays in the view as it was.",
        invariant="I1",
        file="airflow_backfill_provider/spark/view.py",
        old="replace_known(self.table, old, fresh,",
        new="if units is not None:\n            old = old.among("
        'old.rows.join(fresh, list(units.columns), "left_semi"))\n        replace_known(self.table, old, fresh,',
        killers=(f"{UNIT_CHANGES}::test_units_are_replaced_in_one_commit_and_rows_that_stay_are_not_written",),
        spark=True,
    ),
    Mutant(
        name="files-with-null-units-closed",
        breaks="A row of the unit NULL is neither compared nor removed if other units have values.",
        invariant="I1",
        file="airflow_backfill_provider/spark/touched_units.py",
        old='return f"({condition} OR {name} IS NULL)" if self.has_nulls else condition',
        new="return condition",
        killers=(f"{UNIT_CHANGES}::test_files_that_have_other_units_only_are_not_opened[dates]",),
        spark=True,
    ),
    Mutant(
        name="unfinished-view-computed-whole",
        breaks="An epoch that may choose computes the whole view while some history is unread.",
        invariant="I1",
        file="airflow_backfill_provider/protocol/refresh.py",
        old=" or not inputs.state.completed",
        new="",
        killers=("tests/unit/protocol/test_refresh.py::test_a_view_that_is_not_finished_is_not_computed_whole",),
    ),
    Mutant(
        name="slices-of-the-rows-before",
        breaks="The touched groups are computed from their rows before the changes.",
        invariant="I1",
        file="airflow_backfill_provider/shapes/base.py",
        old="barrier.view_after if with_chunk else barrier.view_with_changes",
        new="barrier.view_after if with_chunk else barrier.view_before",
        killers=(_FOLLOWED,),
        spark=True,
    ),
    Mutant(
        name="row-of-no-rows",
        breaks="An aggregate of all rows gets a second row from the epoch that has no history left to read.",
        invariant="I1",
        file=f"{_PACKAGE}/writer.py",
        old="if self._query.is_global and barrier.read_before:",
        new="if self._query.is_global and not barrier.parts:",
        killers=(f"{GROUP_VIEWS}::test_an_aggregate_over_all_rows_has_one_row_if_rows_change_while_history_is_read",),
        spark=True,
    ),
    Mutant(
        name="repair-without-the-changes",
        breaks="An epoch that repairs a group leaves out the changes of other groups.",
        invariant="I7",
        file=f"{_PACKAGE}/writer.py",
        old="touched = chosen.unionAll(self._slices.touched(images)).distinct()",
        new="touched = chosen.distinct()",
        killers=(_REPAIRED,),
        spark=True,
    ),
)
