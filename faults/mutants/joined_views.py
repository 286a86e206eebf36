"""Mistakes in how a view of a join is written: which changes count, what they lead to, and what is checked before."""

from __future__ import annotations

from faults.mutants.mutant import Mutant

_VIEWS = "tests/integration/engine/test_joins.py"
_STAR = f"{_VIEWS}::test_a_star_follows_every_table_through_crashes_duplicates_and_a_repair"
_WIDE = f"{_VIEWS}::test_a_view_of_a_join_is_true_while_its_history_is_read_and_after[wide-no_shuffle-1]"
_CHANGES = "airflow_backfill_provider/engine/other_changes.py"
_FOUND = "airflow_backfill_provider/shapes/joined/affected_rows.py"
_READ = "other.rows.changes(window.from_offset, window.to_offset)"

MUTANTS = (
    Mutant(
        name="deletes-in-a-dimension-ignored",
        breaks="A country that is deleted stays with its orders.",
        invariant="I1",
        file=_CHANGES,
        old=f"return {_READ}.select(",
        new=f"return {_READ}.filter(f\"{{other.rows.change_type}} <> 'delete'\").select(",
        killers=(_STAR,),
        spark=True,
    ),
    Mutant(
        name="one-image-of-a-dimension",
        breaks="Only what a dimension has after a change leads to rows of the lead.",
        invariant="I1",
        file=_CHANGES,
        old=f"return {_READ}.select(",
        new=f"return {_READ}.filter(f\"{{other.rows.change_type}} IN ('insert', 'update_postimage')\").select(",
        killers=(_STAR,),
        spark=True,
    ),
    Mutant(
        name="netted-dimension",
        breaks="Of a key that was there twice for some time, the net change hides a row that is gone.",
        invariant="I1",
        file=_CHANGES,
        old=f"return {_READ}.select(",
        new="from airflow_backfill_provider.spark import net_changes as net\n\n"
        "    used, begin, end = other.rows.columns, window.from_offset, window.to_offset\n"
        "    changes = net.net_changes(other.rows, begin, end, net.F.lit(True), used)\n"
        "    images = net.new_images(other.rows, changes).unionAll(net.old_images(other.rows, changes))\n"
        "    return images.select(",
        killers=(_STAR,),
        spark=True,
    ),
    Mutant(
        name="repeated-key-of-a-dimension",
        breaks="A dimension may have its declared key twice, and the rows of the lead are there twice, too.",
        invariant="I6",
        file="airflow_backfill_provider/engine/single_keys.py",
        old="if not rows.reader.keys_are_unique:\n        rows.measure_chunk",
        new="if False:\n        rows.measure_chunk",
        killers=(_STAR,),
        spark=True,
    ),
    Mutant(
        name="only-the-last-hop",
        breaks="A country leads to no order, because its customers have not changed.",
        invariant="I1",
        file=_FOUND,
        old="            if step.hops:\n",
        new="            if False:\n",
        killers=(_STAR,),
        spark=True,
    ),
    Mutant(
        name="names-of-outer-rows-within",
        breaks="A column of the table that changed is taken for the column of the rows that are looked up.",
        invariant="I1",
        file=_FOUND,
        old="named = without_pushdown(rows).select("
        '"*", *(column(name).alias(unique) for name, unique in outer.items()))',
        new="named, outer = rows, {name: name for name in outer}",
        killers=(_WIDE,),
        spark=True,
    ),
    Mutant(
        name="a-changed-lead-twice",
        breaks="A row of the lead that changed, and that a dimension leads to, is written twice.",
        invariant="I2",
        file="airflow_backfill_provider/shapes/joined/changed_leads.py",
        old="others = without_keys(others, lead.net.select(*map(column, names)), names)",
        new="pass",
        killers=(_STAR,),
        spark=True,
    ),
    Mutant(
        name="a-table-in-its-role-of-the-lead-alone",
        breaks="An order that changes does not reach the orders that it is the parent of.",
        invariant="I1",
        file=_CHANGES,
        old="({lead: barrier.upstream} if barrier.lead_has_changes else {})",
        new="({} if barrier.lead_has_changes else {})",
        killers=(_WIDE,),
        spark=True,
    ),
    Mutant(
        name="affected-leads-in-every-role",
        breaks="An affected order finds no parent that is not affected itself.",
        invariant="I1",
        file="airflow_backfill_provider/shapes/joined/over_branches.py",
        old="return self.resolution.render(self.names(lead, others))",
        new="return self.resolution.render("
        "lambda place: lead if place.relation == self.lead else others[place.relation])",
        killers=(_WIDE,),
        spark=True,
    ),
)
