"""Mistakes in how a union reads the history and the changes of each of its leads."""

from __future__ import annotations

from faults.mutants.killers import JOINED_GROUP_QUERIES
from faults.mutants.mutant import Mutant

_SHAPE = "airflow_backfill_provider/shapes/united"
_QUERIES = "airflow_backfill_provider/shapes/joined/over_branches.py"
_JOBS = "airflow_backfill_provider/shapes/joined/job_checks.py"
_LEADS = "airflow_backfill_provider/shapes/joined/changed_leads.py"
_SNAPSHOT = "airflow_backfill_provider/strategies/snapshot"
_ON_SPARK = "tests/integration/engine/test_unions.py"
_CHUNKS = f"{_ON_SPARK}::test_the_history_of_each_branch_is_read_in_chunks[1]"
_BRANCHES = f"{_ON_SPARK}::test_branches_may_be_joins_and_share_tables"
_REPAIR = f"{_ON_SPARK}::test_a_repair_replaces_units_of_any_branch"
_LEAD_FILES = "tests/unit/strategies/snapshot/test_lead_files.py"
_QUERY = "tests/unit/shapes/united/test_query.py"
_GROUPED = "airflow_backfill_provider/shapes/joined_groups/joined_input.py"
_RESOLVED = "airflow_backfill_provider/shapes/joined/resolved.py"
_FOLD = "tests/integration/engine/test_union_groups.py::test_a_fold_over_a_union_follows_every_branch"

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
        old="windows, query = barrier.changed_others, ",
        new="windows, query = dict[str, str](), ",
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
        file=_QUERIES,
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
        file="airflow_backfill_provider/engine/window_changes.py",
        old="must_be_single = repairs or self.rows.key_spans_vnodes or self.tables.writer.replaces_leads",
        new="must_be_single = repairs or self.rows.key_spans_vnodes",
        killers=(f"{_ON_SPARK}::test_a_key_of_any_branch_that_is_there_twice_is_refused",),
        spark=True,
    ),
    Mutant(
        name="a-union-restricted-by-one-lead",
        breaks="A range of keys of the lead restricts one branch, and nothing says so.",
        invariant="I6",
        file=_JOBS,
        old="if job.restrict_to.vnodes or bounds.after is not None or bounds.up_to is not None:",
        new="if job.restrict_to.vnodes:",
        killers=(f"{_QUERY}::test_what_a_union_cannot_do_is_refused_by_name",),
    ),
    Mutant(
        name="a-lead-that-leads-nothing",
        breaks="A table that is only joined to a branch leads the job, and its rows are read as history.",
        invariant="I6",
        file=_JOBS,
        old="if job.lead and job.lead.lower() not in {name.lower() for name in query.leads}:",
        new="if job.lead and job.lead.lower() not in {name.lower() for name in query.relations}:",
        killers=(f"{_QUERY}::test_what_a_union_cannot_do_is_refused_by_name",),
    ),
    Mutant(
        name="one-relation-for-both-uses-of-a-table",
        breaks="A table that leads a branch and is joined to another one is cut to the affected rows in both.",
        invariant="I1",
        file=_QUERIES,
        old="if not place.leads:",
        new="if not place.leads and place.relation != self.lead:",
        killers=(f"{_QUERY}::test_a_table_that_is_also_joined_to_another_branch_is_read_whole_there",),
    ),
    Mutant(
        name="a-row-that-came-and-went",
        breaks="A row that came and went within the window hides the row with its key that stayed.",
        invariant="I1",
        file=_LEADS,
        old="net=net[name].filter(leaves_something(lead)) if name in net else None,",
        new="net=net.get(name),",
        killers=(_FOLD,),
        spark=True,
    ),
    Mutant(
        name="further-leads-only-come",
        breaks="What a changed row of a further branch counted for before stays in its group.",
        invariant="I1",
        file=_GROUPED,
        old="olds[name], news[name] = old, new\n",
        new="olds[name], news[name] = (old if name == self.query.lead else old.limit(0)), new\n",
        killers=(_FOLD,),
        spark=True,
    ),
    Mutant(
        name="rows-of-union-without-nulls",
        breaks="A row of UNION with a null is never found again, so it stays when no branch has it.",
        invariant="I1",
        file=_RESOLVED,
        old="{_ROWS}.{quote(output)} <=> {_TOUCHED}",
        new="{_ROWS}.{quote(output)} = {_TOUCHED}",
        killers=(f"{JOINED_GROUP_QUERIES}::test_union_makes_a_group_of_each_of_its_rows",),
    ),
    Mutant(
        name="union-in-a-branch-of-union-all",
        breaks="A branch that removes duplicates is one of UNION ALL, and its duplicates are rows of the view.",
        invariant="I6",
        file="airflow_backfill_provider/shapes/joined/reading.py",
        old="if rows.base.is_distinct and not is_distinct:",
        new="if False:",
        killers=(f"{JOINED_GROUP_QUERIES}::test_what_cannot_be_kept_up_to_date_is_refused_by_name",),
    ),
    Mutant(
        name="union-before-union-all",
        breaks="UNION removes the duplicates of all branches, also of those that UNION ALL adds after it.",
        invariant="I6",
        file="airflow_backfill_provider/shapes/joined/clauses.py",
        old="if any(operators) and not operators[-1]:",
        new="if False:",
        killers=(f"{JOINED_GROUP_QUERIES}::test_what_cannot_be_kept_up_to_date_is_refused_by_name",),
    ),
)
