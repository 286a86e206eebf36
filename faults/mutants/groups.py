"""Mistakes in views of groups: which units a change touches, and how they are replaced."""

from __future__ import annotations

from faults.mutants.killers import FOLD_ITEMS, FOLDED_VIEWS, GROUP_ORDERS, GROUP_TEXTS, GROUP_UNITS, GROUP_VIEWS
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
        name="hidden-items-of-any-words",
        breaks="An item that needs a column of the upstream is computed from results.",
        invariant="I1",
        file=f"{_PACKAGE}/fold/items.py",
        old="if not is_called and (",
        new="if is_called and (",
        killers=(f"{FOLD_ITEMS}::test_a_list_that_needs_more_than_results_is_not_folded",),
    ),
    Mutant(
        name="a-row-of-nothing",
        breaks="The empty chunk of a later epoch adds a second row to the view of an aggregate over all rows.",
        invariant="I1",
        file=f"{_PACKAGE}/writer.py",
        old="if self._query.is_global and barrier.read_before:",
        new="if self._query.is_global and not barrier.parts:",
        killers=(f"{FOLDED_VIEWS}::test_a_fold_follows_the_upstream_through_changes_and_crashes",),
        spark=True,
    ),
    Mutant(
        name="folded-twice",
        breaks="An attempt after the epoch's MERGE adds the changes to the state that has them.",
        invariant="I2",
        file=f"{_PACKAGE}/fold_writer.py",
        old="if view.table.is_written(CHANGES, identity, barrier):",
        new="if since is None:",
        killers=(f"{FOLDED_VIEWS}::test_a_fold_follows_the_upstream_through_changes_and_crashes",),
        spark=True,
    ),
    Mutant(
        name="merge-without-transaction",
        breaks="The MERGE of an attempt that was overtaken is done once more, and new groups are there twice.",
        invariant="I5",
        file="airflow_backfill_provider/spark/stamped_table.py",
        old="_TRANSACTION_ID: transaction_id(identity, part),",
        new='_TRANSACTION_ID: f"{transaction_id(identity, part)}/{id(write)}",',
        killers=(f"{FOLDED_VIEWS}::test_an_attempt_whose_merge_comes_second_writes_nothing",),
        spark=True,
    ),
)
