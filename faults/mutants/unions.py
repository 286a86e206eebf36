"""Mistakes in how a union reads the history and the changes of each of its leads."""

from __future__ import annotations

from faults.mutants.mutant import Mutant

_SHAPE = "airflow_backfill_provider/shapes/united"
_SNAPSHOT = "airflow_backfill_provider/strategies/snapshot"
_ON_SPARK = "tests/integration/engine/test_unions.py"
_CHUNKS = f"{_ON_SPARK}::test_the_history_of_each_branch_is_read_in_chunks[1]"
_BRANCHES = f"{_ON_SPARK}::test_branches_may_be_joins_and_share_tables"
_REPAIR = f"{_ON_SPARK}::test_a_repair_replaces_units_of_any_branch"
_LEAD_FILES = "tests/unit/strategies/snapshot/test_lead_files.py"
_QUERY = "tests/unit/shapes/united/test_query.py"

MUTANTS = (
    Mutant(
        name="files-of-all-leads-from-zero",
        breaks="The files of the second table of a union have the numbers of the first one's.",
        invariant="I1",
        file=f"{_SNAPSHOT}/lead_files.py",
        old="first = found.first + len(found.files)",
        new="first = found.first",
        killers=(_CHUNKS,),
        spark=True,
    ),
    Mutant(
        name="a-range-without-the-first-number",
        breaks="A range of positions selects files by their numbers among those of the first table.",
        invariant="I1",
        file=f"{_SNAPSHOT}/lead_files.py",
        old="return range(min(max(begin - self.first, 0), count), max(min(end - self.first, count), 0))",
        new="return range(min(begin, count), min(end, count))",
        killers=(f"{_LEAD_FILES}::test_a_range_has_rows_of_some_files_of_each_upstream",),
    ),
    Mutant(
        name="history-of-the-first-lead-alone",
        breaks="A plan of the next chunk ends with the files of the job's lead.",
        invariant="I1",
        file=f"{_SNAPSHOT}/next_chunk.py",
        old="files = [file for lead in leads for file in lead.files]",
        new="files = [*leads[0].files]",
        killers=(_CHUNKS,),
        spark=True,
    ),
    Mutant(
        name="changes-of-the-first-lead-alone",
        breaks="Changes of a table that leads a further branch do not reach the view.",
        invariant="I1",
        file="airflow_backfill_provider/engine/lead_changes.py",
        old="windows = barrier.changed_others\n",
        new="windows = dict[str, str]()\n",
        killers=(_CHUNKS, _BRANCHES),
        spark=True,
    ),
    Mutant(
        name="first-branch-of-a-lead-alone",
        breaks="Of a table in two branches, a change replaces what the first of them gives.",
        invariant="I1",
        file=f"{_SHAPE}/units.py",
        old="        units = [keys.select(*self._values(branch)) for branch in self._branches(lead)]\n",
        new="        units = [keys.select(*self._values(branch)) for branch in list(self._branches(lead))[:1]]\n",
        killers=(_BRANCHES,),
        spark=True,
    ),
    Mutant(
        name="branches-by-the-first-plan",
        breaks="A change of what a table's second branch is joined with finds no row of it.",
        invariant="I1",
        file=f"{_SHAPE}/query.py",
        old="return tuple(plan for tree, plan in trees if tree.lead.relation == lead)",
        new="return tuple(plan for tree, plan in trees if tree.lead.relation == lead)[1:]",
        killers=(_BRANCHES,),
        spark=True,
    ),
    Mutant(
        name="a-repair-of-one-branch",
        breaks="A repair replaces a unit of one branch, and writes those of the other branches of its lead again.",
        invariant="I2",
        file=f"{_SHAPE}/writer.py",
        old="                units.append(self._units.of_keys(name, keys))\n",
        new="",
        killers=(_REPAIR,),
        spark=True,
    ),
    Mutant(
        name="strays-of-a-union-stay",
        breaks="A repair of vnodes looks for their units among the rows of the leads alone, not in the view.",
        invariant="I1",
        file=f"{_SHAPE}/writer.py",
        old="every = context.view.table.read().select(*map(column, outputs))",
        new="every = context.view.table.read().select(*map(column, outputs)).limit(0)",
        killers=(_REPAIR,),
        spark=True,
    ),
    Mutant(
        name="a-key-twice-in-a-union",
        breaks="A key that a table of a union has twice is written with one of its rows.",
        invariant="I6",
        file="airflow_backfill_provider/engine/lead_changes.py",
        old="    if found.measured.some_appeared:\n",
        new="    if found.measured.some_appeared and found.measured.some_doubtful:\n",
        killers=(f"{_ON_SPARK}::test_a_key_of_any_branch_that_is_there_twice_is_refused",),
        spark=True,
    ),
    Mutant(
        name="a-key-twice-in-the-lead",
        breaks="A key that the lead of a join or union has twice is written with one of its rows.",
        invariant="I6",
        file="airflow_backfill_provider/engine/epoch.py",
        old="must_be_single = repairs or rows.key_spans_vnodes or self._tables.writer.replaces_leads",
        new="must_be_single = repairs or rows.key_spans_vnodes",
        killers=(f"{_ON_SPARK}::test_a_key_of_any_branch_that_is_there_twice_is_refused",),
        spark=True,
    ),
    Mutant(
        name="a-union-restricted-by-one-lead",
        breaks="A range of keys of the lead restricts one branch, and nothing says so.",
        invariant="I6",
        file=f"{_SHAPE}/__init__.py",
        old="if job.restrict_to.vnodes or bounds.after is not None or bounds.up_to is not None:",
        new="if job.restrict_to.vnodes:",
        killers=(f"{_QUERY}::test_what_a_union_cannot_do_is_refused_by_name",),
    ),
    Mutant(
        name="a-lead-that-leads-nothing",
        breaks="A table that is only joined to a branch leads the job, and its rows are read as history.",
        invariant="I6",
        file=f"{_SHAPE}/__init__.py",
        old="if job.lead and job.lead.lower() not in {name.lower() for name in query.leads}:",
        new="if job.lead and job.lead.lower() not in {name.lower() for name in query.relations}:",
        killers=(f"{_QUERY}::test_what_a_union_cannot_do_is_refused_by_name",),
    ),
    Mutant(
        name="one-relation-for-both-uses-of-a-table",
        breaks="A table that leads a branch and is joined to another one is cut to the affected rows in both.",
        invariant="I1",
        file=f"{_SHAPE}/query.py",
        old="if not reading.leads:",
        new="if not reading.leads and reading.relation != self.lead:",
        killers=(f"{_QUERY}::test_a_table_that_is_also_joined_to_another_branch_is_read_whole_there",),
    ),
)
