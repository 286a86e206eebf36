"""What the campaign of joins draws: queries that the package accepts, tables that match, histories of all of them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.shapes.joined.query import check_joined_query
from airflow_backfill_provider.shapes.joined.relations import Relation, RelationColumn
from airflow_backfill_provider.shapes.joined.resolved import resolve
from faults.campaign import chance
from faults.joins import datafusion
from faults.joins.case import a_case
from faults.joins.queries import KINDS, a_query
from faults.joins.rows import CHANGES, JoinedRows
from faults.joins.tables import TYPES, some_tables
from faults.shapes.values import sql_type

pytestmark = pytest.mark.slow  # many random queries

MANY = 120
CASES = [a_case(chance("joins", 1, number)) for number in range(MANY)]


def queries(kind, count=60):
    for number in range(count):
        random = chance(kind, 1, number)
        yield a_query(random, some_tables(random), [kind])


QUERIES = {kind: list(queries(kind)) for kind in KINDS}


def relation_of(table):
    columns = (RelationColumn(one.name, sql_type(one.type), not one.is_required) for one in table.columns)
    return Relation(table.name, tuple(columns), tuple(column.name for column in table.keys))


def test_a_seed_and_a_number_draw_one_case():
    assert a_case(chance("joins", 1, 7)) == CASES[7] != a_case(chance("joins", 2, 7))
    assert all("\n" not in case.summary() and case.summary().isascii() for case in CASES)


@pytest.mark.parametrize("kind", KINDS)
def test_every_query_of_the_grammar_is_accepted(kind):
    """Also of kinds that no shape is registered for yet; the query says which tables may lead, and which it reads."""
    for query in QUERIES[kind]:
        checked, tables = check_joined_query(query.text), [relation_of(table) for table in query.tables]
        assert set(checked.relations) == {table.name for table in tables}
        joins = [source.relation for join in checked.rows.joins for source in join.all_sources]
        assert query.once == {name for name in joins if joins.count(name) == 1}
        for lead in ("", *query.leads):
            resolved = resolve(checked, tables, lead)
            assert (resolved.row_units is None) == (kind.startswith("groups") or resolved.query.is_distinct)
    assert len({query.text for query in QUERIES[kind]}) > 0.95 * len(QUERIES[kind])


def test_every_case_has_a_job_whose_lead_is_one_that_its_query_may_have():
    for case in CASES:
        upstreams = {table.name: {"path": f"/lake/{table.name}", "key": ["id"]} for table in case.tables}
        job = BackfillJob(
            name="joined",
            upstreams=upstreams,
            materialized_view="/lake/view",
            query=case.query.text,
            **case.fields,
        )
        assert job.all_upstreams.keys() == upstreams.keys()
        relations = [relation_of(table) for table in case.tables]
        tree = resolve(check_joined_query(job.query), relations, case.fields.get("lead", "")).trees[0]
        assert tree.lead.relation == job.lead_name


@pytest.mark.parametrize(
    "construct",
    [
        *(" JOIN ", "LEFT (OUTER )?JOIN", "RIGHT (OUTER )?JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "FROM .* AS j"),
        *(r"USING \(`?\w+`?\)", r"USING \(.*, ", r"FROM \w+( (AS )?r\d)?, \w+", "<=>", "WITH w0 AS", "`größe`"),
        *(r"[^T] EXISTS \(", r"NOT EXISTS \(", r"IN \(SELECT", r"NOT IN \(", r"\) IN \(SELECT \S+, ", r"JOIN \(SELECT"),
        *(r"SELECT \*", r"SELECT r\d\.\*", r"(FROM|JOIN) (\w+)\b.*JOIN \2 ", r"EXISTS \(SELECT \S+ FROM [^()]* JOIN"),
    ],
)
def test_some_hundred_joins_have_every_construct(construct):
    texts = [" ".join(query.text.split()) for query in (*QUERIES["join"], *(case.query for case in CASES))]
    assert sum(bool(re.search(construct, text, re.IGNORECASE)) for text in texts) >= 2


def test_some_hundred_cases_have_every_type_change_and_field():
    tables = [table for case in CASES for table in case.tables]
    joined = {column.type for table in tables for column in table.joinable}
    assert joined == {kind for kinds in TYPES.values() for kind in kinds}
    assert {len(case.tables) for case in CASES} >= {1, 2, 3, 4}
    assert {len(table.keys) for table in tables} == {1, 2, 3}
    assert {kind for case in CASES for gap in case.gaps for _, kind in gap} == set(CHANGES)
    assert any(len(gap) > len({name for name, _ in gap}) for case in CASES for gap in case.gaps)
    assert {table.upstream.writer for table in tables} == {"delta-rs", "spark"}
    assert {case.fields["strategy"] for case in CASES} == {"snapshot", "no_shuffle", "arrangement"}
    assert {bool(case.fields.get("lead")) for case in CASES} == {True, False}
    assert {bool(case.query.once) for case in CASES} == {True, False}


def test_rows_keep_their_keys_apart_and_have_no_nulls_where_none_may_be():
    for table in [table for case in CASES[:25] for table in case.tables]:
        rows = JoinedRows(table)
        now = rows.begin(table.upstream.rows)
        for kind in (*CHANGES, "return"):
            change = rows.change(kind, now)
            assert change.before == now
            now = change.after
            keys = [repr([row[i] for i in table.upstream.key_indices]) for row in now]
            assert len(set(keys)) == len(keys)
            for i, column in enumerate(table.columns):
                assert not column.is_required or all(row[i] is not None for row in now)


def test_all_rows_of_a_table_get_other_values_under_their_keys():
    table = next(table for case in CASES for table in case.tables if table.upstream.rows > 15)
    rows = JoinedRows(table)
    before = rows.begin(table.upstream.rows)
    joinable = [i for i, column in enumerate(table.columns) if column in table.joinable]
    renamed, replaced = (rows.change(kind, before).after for kind in ("rename", "replace"))
    for old, new, other in zip(before, renamed, replaced, strict=True):
        assert [repr(old[i]) for i in joinable] == [repr(new[i]) for i in joinable]
        assert [repr(old[i]) for i in table.upstream.key_indices] == [
            repr(other[i]) for i in table.upstream.key_indices
        ]
    assert len(set(map(repr, before)) & set(map(repr, replaced))) < len(before) / 4


def test_most_queries_have_rows_and_are_known_to_the_second_engine(tmp_path):
    """A view without rows would be right whatever its epochs did."""
    found = []
    for query in QUERIES["join"][:60]:
        rows = {table.name: JoinedRows(table).begin(table.upstream.rows) for table in query.tables}
        found.append(datafusion.computed(query.text, query.tables, rows, tmp_path))
    assert sum(result is not None for result in found) > len(found) / 2
    assert sum(bool(result) for result in found) > len(found) / 3


def test_the_second_engine_computes_the_query_over_the_given_rows(tmp_path):
    table = next(table for case in CASES for table in case.tables if table.keys[0].type == "long" and table.values)
    table = replace(table, name="Lines", upstream=replace(table.upstream, columns=table.columns[:0] + table.keys[:1]))
    query = "SELECT a.`id`, 'It is 1' AS said FROM Lines a LEFT JOIN Lines AS B ON a.ID = b.id WHERE b.ID <> 1"
    rows = {"Lines": ((1,), (2,), (None,))}
    assert datafusion.computed(query, [table], rows, tmp_path) == [(2, "It is 1")]
    assert datafusion.computed("SELECT hex(id) FROM Lines", [table], rows, tmp_path) is None
