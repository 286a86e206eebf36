"""Mistakes in views of groups: which units a change touches, and how they are replaced."""

from __future__ import annotations

from faults.mutants.killers import (
    GROUP_ORDERS,
    GROUP_TEXTS,
    GROUP_UNITS,
    GROUP_VIEWS,
    UNIT_ARRANGEMENT,
    UNIT_CHUNKS,
)
from faults.mutants.mutant import Mutant

_PACKAGE = "airflow_backfill_provider/shapes/group"

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
        name="chunk-inside-a-unit",
        breaks="A chunk ends inside a group, so the view gets the group in two halves.",
        invariant="I1",
        file="airflow_backfill_provider/core/scan/unit_chunks.py",
        old="if chunk.rows <= rows:",
        new="if chunk.rows >= 0:",
        killers=(f"{UNIT_CHUNKS}::test_each_unit_is_read_once_and_whole_within_the_rate_limit",),
    ),
    Mutant(
        name="unit-before-itself",
        breaks="A chunk that must end before a group ends after it, above the rate limit.",
        invariant="I4",
        file="airflow_backfill_provider/lake/files/key_index.py",
        old="keys.filter(pc.invert(pc.or_(*_compared(keys, order, position))))",
        new="keys.filter(pc.invert(_is_after(keys, order, position)))",
        killers=("tests/unit/lake/files/test_key_index.py::test_the_last_key_before_a_position_is_another_one",),
    ),
    Mutant(
        name="one-unit-divided",
        breaks="An aggregate of all rows is read in parts, and the view gets one row for each.",
        invariant="I6",
        file=f"{_PACKAGE}/query.py",
        old="return not self.is_global",
        new="return True",
        killers=("tests/unit/shapes/group/test_query.py::test_a_job_of_groups_is_refused_what_its_shape_cannot_do",),
    ),
    Mutant(
        name="units-netted-per-vnode",
        breaks="A row that moves to another group in its vnode stays in the group that it leaves.",
        invariant="I1",
        file="airflow_backfill_provider/spark/net_changes.py",
        old="identity = [column(name) for name in rows.identity.names]",
        new="identity = [*map(column, [own.vnode] if rows.has_vnode_positions else []), *keys]",
        killers=(f"{UNIT_ARRANGEMENT}::test_every_epoch_has_the_read_groups_as_of_its_own_end[one-column]",),
        spark=True,
    ),
)
