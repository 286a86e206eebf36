"""Mistakes in views of groups: which units a change touches, and how they are replaced."""

from __future__ import annotations

from faults.mutants.killers import (
    FULL_ORDERS,
    GROUP_ORDERS,
    GROUP_TEXTS,
    GROUP_UNITS,
    GROUP_VIEWS,
    PLAN_CHECK,
    REFRESH,
)
from faults.mutants.mutant import Mutant

_PACKAGE = "airflow_backfill_provider/shapes/group"
_FULL = "airflow_backfill_provider/shapes/full"

MUTANTS = (
    Mutant(
        name="units-by-new-images-alone",
        breaks="A group that a row leaves keeps the row.",
        invariant="I1",
        file=f"{_PACKAGE}/slices.py",
        old="return self.units_of(new).unionAll(self.units_of(old)).distinct()",
        new="return self.units_of(new).distinct()",
        killers=(f"{GROUP_VIEWS}::test_groups_follow_the_upstream_through_changes_and_crashes",),
        spark=True,
    ),
    Mutant(
        name="null-units-not-sliced",
        breaks="The rows of the group NULL are not found, so its row in the view vanishes.",
        invariant="I1",
        file=f"{_PACKAGE}/texts.py",
        old="({found.text(text)}) <=> {_TOUCHED}",
        new="({found.text(text)}) = {_TOUCHED}",
        killers=(f"{GROUP_TEXTS}::test_the_texts_of_a_query",),
    ),
    Mutant(
        name="units-of-one-window",
        breaks="A unit is what one window divides by, although another one crosses it.",
        invariant="I1",
        file=f"{_PACKAGE}/units.py",
        old="if not all(_has(division, unit) for division in steps[first].divisions):",
        new="if not any(_has(division, unit) for division in steps[first].divisions):",
        killers=(f"{GROUP_UNITS}::test_steps_that_divide_by_nothing_in_common_are_refused_with_the_chain_to_make",),
    ),
    Mutant(
        name="order-with-a-part-of-the-key",
        breaks="Rows that are equal in a window's order change places between two runs.",
        invariant="I6",
        file=f"{_PACKAGE}/orders.py",
        old="return all(meanings & wanted for wanted in identity)",
        new="return any(meanings & wanted for wanted in identity)",
        killers=(f"{GROUP_ORDERS}::test_an_order_needs_every_column_of_the_key",),
    ),
    Mutant(
        name="last-part-gives-a-row-over-nothing",
        breaks="The last part of history has no rows, and an aggregate over it adds a second row to the view.",
        invariant="I1",
        file=f"{_PACKAGE}/writer.py",
        old="fresh.limit(0) if barrier.read_before else fresh",
        new="fresh",
        killers=(f"{GROUP_VIEWS}::test_an_aggregate_over_all_rows_has_one_row_if_rows_change_before_it_is_finished",),
        spark=True,
    ),
    Mutant(
        name="order-known-after-rollup",
        breaks="Rows of a query with ROLLUP are taken for identified by the key, so results depend on their order.",
        invariant="I6",
        file=f"{_FULL}/orders.py",
        old='level.select.args.get("laterals") or grains(level.select) or called',
        new='level.select.args.get("laterals") or called',
        killers=(f"{FULL_ORDERS}::test_an_order_in_which_rows_may_be_equal_is_refused",),
    ),
    Mutant(
        name="other-rows-beside-several-readings",
        breaks="A query that reads the upstream twice may read rows of its own beside it.",
        invariant="I6",
        file="airflow_backfill_provider/spark/plan_check.py",
        old="sum(node.name in _ROWS for node in found) != bound",
        new="sum(node.name in _ROWS for node in found) < bound",
        killers=(f"{PLAN_CHECK}::test_only_a_shape_that_announces_it_may_read_the_upstream_several_times",),
    ),
    Mutant(
        name="changes-needed-by-all-shapes",
        breaks="A job that computes its view whole is refused once old versions are gone from the upstream's log.",
        invariant="I6",
        file="airflow_backfill_provider/protocol/inject.py",
        old="if decided.needs_changes and reads_changes and not idle:",
        new="if decided.needs_changes and not idle:",
        killers=(f"{REFRESH}::test_versions_that_the_log_no_longer_has_are_not_missed",),
    ),
)
