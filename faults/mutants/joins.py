"""Mistakes in what is known of joins and unions: which leads a change affects, and what identifies a row."""

from __future__ import annotations

from faults.mutants.killers import AFFECTED_LEADS, JOIN_COLUMNS, JOIN_QUERIES, JOIN_TEXTS, JOIN_TREES, JOIN_UNITS
from faults.mutants.mutant import Mutant

_PACKAGE = "airflow_backfill_provider/shapes/joined"
_REPLACED = f"{AFFECTED_LEADS}::test_the_units_of_affected_leads_and_no_others_have_to_be_replaced[few-query]"
_IDENTIFIED = f"{AFFECTED_LEADS}::test_the_columns_of_keys_identify_each_row[few-query]"

MUTANTS = (
    Mutant(
        name="second-hop-ignored",
        breaks="A country that is renamed reaches no order, because no customer changed.",
        invariant="I1",
        file=f"{_PACKAGE}/affected.py",
        old="hops = tuple(Hop(child.role, child.pairs) for child in tree.children(node.role))",
        new="hops = tuple(Hop(child.role, child.pairs) for child in tree.children(node.role) if node is tree.lead)",
        killers=(_REPLACED,),
    ),
    Mutant(
        name="only-the-first-dimension",
        breaks="A change of the second dimension reaches no lead.",
        invariant="I1",
        file=f"{_PACKAGE}/tree.py",
        old="return tuple(node for node in self.nodes if node.parent == role and node is not self.lead)",
        new="return tuple(node for node in self.nodes if node.parent == role and node is not self.lead)[:1]",
        killers=(_REPLACED,),
    ),
    Mutant(
        name="null-safe-through-a-left-join",
        breaks="A lead without a match is not found by the dimension's dimension that <=> matches to its null.",
        invariant="I1",
        file=f"{_PACKAGE}/tree.py",
        old="return edge.null_safe and parent.role.source.how is Joining.LEFT",
        new="return False",
        killers=(f"{JOIN_TREES}::test_an_equality_with_nulls_does_not_lead_through_a_left_join",),
    ),
    Mutant(
        name="every-join-a-lookup",
        breaks="The lines of an order are not told apart, so that one of them stays.",
        invariant="I2",
        file=f"{_PACKAGE}/tree.py",
        old="return bool(key) and key <= {link.pair.column.lower() for link in links if link.is_exact}",
        new="return bool(links)",
        killers=(_IDENTIFIED,),
    ),
    Mutant(
        name="lookup-by-a-part-of-the-key",
        breaks="A join by one column of a key of two counts as a lookup.",
        invariant="I2",
        file=f"{_PACKAGE}/tree.py",
        old="return bool(key) and key <= {",
        new="return bool(key) and key & {",
        killers=(_IDENTIFIED,),
    ),
    Mutant(
        name="union-without-the-branch",
        breaks="Rows of two branches with one key overwrite each other.",
        invariant="I2",
        file=f"{_PACKAGE}/units.py",
        old='return RowUnits(_free(HIDDEN_BRANCH, used) if is_union else "", tuple(columns))',
        new='return RowUnits("", tuple(columns))',
        killers=(f"{JOIN_UNITS}::test_a_row_is_identified_by_the_lead_and_what_fans_out",),
    ),
    Mutant(
        name="lead-in-every-role",
        breaks="A table that is joined with itself is cut to the affected rows in both roles.",
        invariant="I1",
        file=f"{_PACKAGE}/texts.py",
        old="relations[role], role == tree.lead.role))",
        new="relations[role], relations[role] == tree.lead.relation))",
        killers=(f"{JOIN_TEXTS}::test_each_place_says_what_is_read_there",),
    ),
    Mutant(
        name="not-in-over-nulls",
        breaks="NOT IN is accepted over a column that may be null, where one null decides about all rows.",
        invariant="I6",
        file=f"{_PACKAGE}/edges.py",
        old="return column is None or column.nullable or found.role.source.how is Joining.LEFT",
        new="return column is None",
        killers=(f"{JOIN_QUERIES}::test_a_construct_that_cannot_be_kept_up_to_date_is_refused_by_name",),
    ),
    Mutant(
        name="first-of-two-columns",
        breaks="A name of two tables means the first one's column, where Spark finds it ambiguous.",
        invariant="I6",
        file=f"{_PACKAGE}/scopes.py",
        old="if len(having) > 1:",
        new="if False:",
        killers=(f"{JOIN_QUERIES}::test_a_construct_that_cannot_be_kept_up_to_date_is_refused_by_name",),
    ),
    Mutant(
        name="one-lead-in-two-places",
        breaks="A SELECT in WITH that two places read is cut to the affected rows in both.",
        invariant="I1",
        file=f"{_PACKAGE}/outcome.py",
        old="if sum(source.read == lead.read for source in every) > 1:",
        new="if False:",
        killers=(f"{JOIN_QUERIES}::test_a_construct_that_cannot_be_kept_up_to_date_is_refused_by_name",),
    ),
    Mutant(
        name="names-after-a-pipe",
        breaks="A column that a pipe operator after a join names by its relation is not read.",
        invariant="I6",
        file=f"{_PACKAGE}/columns.py",
        old="if level.relation is None:",
        new="if False:",
        killers=(f"{JOIN_COLUMNS}::test_only_columns_that_a_query_may_name_are_read",),
    ),
    Mutant(
        name="first-relation-leads-as-well",
        breaks="A job that says which relation leads reads the history of the first one in FROM, too.",
        invariant="I6",
        file="airflow_backfill_provider/core/kinds.py",
        old="if len(leads) == 1:",
        new="if False:",
        killers=(f"{JOIN_QUERIES}::test_a_job_of_a_join_has_one_lead_also_if_it_is_not_the_first_relation",),
    ),
)
