"""Mistakes in groups over a join whose history is read group by group: which units a row of the lead is in."""

from __future__ import annotations

from faults.mutants.killers import JOINED_UNITS
from faults.mutants.mutant import Mutant

_PLACES = "airflow_backfill_provider/spark/unit_places.py"
_ROWS = "airflow_backfill_provider/shapes/joined_groups/joined_input.py"
_READ = (f"{JOINED_UNITS}::test_every_epoch_has_the_groups_that_were_read_as_of_one_instant_of_all_tables",)

MUTANTS = (
    Mutant(
        name="a-left-unit-keeps-the-lead",
        breaks="An order of a customer who moves stays arranged in the group that it left.",
        invariant="I1",
        file=_PLACES,
        old="        before.unionByName(after)\n",
        new="        before.limit(0).unionByName(after)\n",
        killers=_READ,
        spark=True,
    ),
    Mutant(
        name="units-beside-old-rows",
        breaks="Leads are arranged by what the other tables had before the window.",
        invariant="I1",
        file=_ROWS,
        old="yield net_by_unit(self.context.placed, leads[self.query.lead], begin, end)",
        new="yield net_by_unit(self.context.placed, leads[self.query.lead], begin, begin)",
        killers=_READ,
        spark=True,
    ),
    Mutant(
        name="moved-leads-are-not-arranged",
        breaks="An order whose customer moves, and that did not change itself, stays arranged where it was.",
        invariant="I1",
        file=_PLACES,
        old="    moved: Column = F.col(own.appeared) | ~upsert\n",
        new="    moved: Column = F.lit(False)\n",
        killers=_READ,
        spark=True,
    ),
    Mutant(
        name="a-lead-twice-in-a-chunk",
        breaks="An order with lines in two groups of a chunk is joined twice, and each line counts twice.",
        invariant="I1",
        file=_ROWS,
        old="leads = rows.dropDuplicates(list(placed.key.names))",
        new="leads = rows",
        killers=_READ,
        spark=True,
    ),
    Mutant(
        name="all-rows-of-a-chunks-leads",
        breaks="An order of a chunk brings its lines of other groups along, which get a row of some of their lines.",
        invariant="I1",
        file=_ROWS,
        old="return RowsOfUnits(self._of({self.query.lead: leads}, others), placed, barrier.parts[part].ranges)",
        new="return self._of({self.query.lead: leads}, others)",
        killers=_READ,
        spark=True,
    ),
    Mutant(
        name="joined-changes-of-unread-groups",
        breaks="A change writes groups that no chunk has read yet, and the chunk writes them again.",
        invariant="I1",
        file=_ROWS,
        old="        if placed is None or are_all(placed, barrier.read_before):\n",
        new="        if placed is not None or placed is None:\n",
        killers=_READ,
        spark=True,
    ),
    Mutant(
        name="dimensions-before-the-first-chunk",
        breaks="A customer who moves before anything is read takes no order along in the arrangement.",
        invariant="I1",
        file="airflow_backfill_provider/engine/other_changes.py",
        old="(is_first and not tables.are_placed_beside_others)",
        new="is_first",
        killers=_READ,
        spark=True,
    ),
)
