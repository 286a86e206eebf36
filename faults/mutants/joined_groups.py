"""Mistakes in views of groups over a join: which joined rows leave groups, and which come to them."""

from __future__ import annotations

from faults.mutants.killers import FOLD_ARGUMENTS, JOINED_GROUP_QUERIES, JOINED_GROUPS
from faults.mutants.mutant import Mutant

_ROWS = "airflow_backfill_provider/shapes/joined_groups/joined_input.py"
_FOLLOWED = f"{JOINED_GROUPS}::test_a_fold_over_a_star_follows_every_table_of_it"

MUTANTS = (
    Mutant(
        name="old-rows-with-new-dimensions",
        breaks="What leaves groups is joined with the other tables as of the window's end.",
        invariant="I1",
        file=_ROWS,
        old="self._read(self._of(olds, begin), barrier), self._read(self._of(news, end), barrier)",
        new="self._read(self._of(olds, end), barrier), self._read(self._of(news, end), barrier)",
        killers=(_FOLLOWED,),
        spark=True,
    ),
    Mutant(
        name="new-rows-with-old-dimensions",
        breaks="What comes to groups is joined with the other tables as of the window's begin.",
        invariant="I1",
        file=_ROWS,
        old="self._read(self._of(olds, begin), barrier), self._read(self._of(news, end), barrier)",
        new="self._read(self._of(olds, begin), barrier), self._read(self._of(news, begin), barrier)",
        killers=(_FOLLOWED,),
        spark=True,
    ),
    Mutant(
        name="groups-of-changed-leads-alone",
        breaks="The orders of a customer who moves stay in their groups, because no order changed.",
        invariant="I1",
        file=_ROWS,
        old="                if lead.unchanged is not None:\n",
        new="                if False:\n",
        killers=(_FOLLOWED,),
        spark=True,
    ),
    Mutant(
        name="unchanged-leads-only-come",
        breaks="The orders of a customer who moves count in the new group, and in the old one, too.",
        invariant="I1",
        file=_ROWS,
        old="old, new, reads_all = old.unionByName(lead.unchanged), new.unionByName(lead.unchanged), True",
        new="new, reads_all = new.unionByName(lead.unchanged), True",
        killers=(_FOLLOWED,),
        spark=True,
    ),
    Mutant(
        name="a-second-row-of-a-lead-in-groups",
        breaks="A lead may have a key twice, and one of its rows hides from the changes of other tables.",
        invariant="I6",
        file=_ROWS,
        old="relies_on_key: ClassVar[bool] = True",
        new="relies_on_key: ClassVar[bool] = False",
        killers=(_FOLLOWED,),
        spark=True,
    ),
    Mutant(
        name="arguments-before-their-filter",
        breaks="An argument is computed for rows that FILTER leaves out, and fails where the query does not.",
        invariant="I6",
        file="airflow_backfill_provider/shapes/group/fold/arguments.py",
        old='return f"({argument})" if condition is None else f"CASE WHEN {condition} THEN {argument} END"',
        new='return f"({argument})"',
        killers=(f"{FOLD_ARGUMENTS}::test_an_argument_is_computed_only_where_its_filter_takes_the_row",),
    ),
    Mutant(
        name="no-old-values-of-the-lead",
        breaks="What an order counted for before its change is not known, so it stays in its old group.",
        invariant="I1",
        file="airflow_backfill_provider/shapes/joined_groups/query.py",
        old="        return tuple(available)\n",
        new="        return ()\n",
        killers=(f"{JOINED_GROUP_QUERIES}::test_what_groups_lose_is_joined_from_the_old_rows_of_the_lead",),
    ),
)
