"""What the campaign of groups draws: queries that the package accepts, queries that it must refuse, and histories."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from faults.campaign import chance
from faults.groups.case import a_case
from faults.groups.rows import MovingRows
from faults.groups.tables import APPENDS, CHANGES, GROUP_TYPES, VALUE_TYPES, values_of
from faults.groups.truth import differences

pytestmark = pytest.mark.slow  # many random queries

MANY = 260
CASES = [a_case(chance("groups", 1, number)) for number in range(MANY)]
JOBS = [(case, job) for case in CASES for job in case.jobs]
KNOWN_TO_SPARK_ALONE = {"collation", "`g`"}
"""What only Spark can name, because it depends on types."""


def job_of(case, job):
    definition = job.definition("/lake/orders", [name for name, _ in case.upstream.key])
    return BackfillJob(name="groups", materialized_view="/lake/view", **definition)


def test_a_seed_and_a_number_draw_one_case():
    assert a_case(chance("groups", 1, 7)) == CASES[7] != a_case(chance("groups", 2, 7))
    assert all("\n" not in case.summary() and case.summary().isascii() for case in CASES)


def test_every_query_of_the_grammar_is_accepted():
    accepted = [job_of(case, job) for case, job in JOBS[:150] if not job.refused_for]
    assert len({job.query for job in accepted}) > 0.95 * len(accepted)


def test_every_other_query_is_refused_by_what_it_is_refused_for():
    refused = Counter()
    for case, job in JOBS:
        if job.refused_for and job.refused_for not in KNOWN_TO_SPARK_ALONE:
            with pytest.raises(InvalidJobError, match=re.escape(job.refused_for)):
                job_of(case, job)
            refused[job.refused_for] += 1
    assert len(refused) > 10


@pytest.mark.parametrize(
    "construct",
    [
        *("GROUP BY ALL", r"GROUP BY 1", "HAVING", r"FILTER \(WHERE", "SELECT DISTINCT", r"count\(DISTINCT", "QUALIFY"),
        *(r"\|> AGGREGATE", r"\|> EXTEND", "WINDOW w AS", r"row_number\(\)", r"\brank\(\)", "ROWS BETWEEN", "listagg"),
        *(
            "WITH ranked AS",
            "sort_array",
            "max_by",
            "percentile_cont",
            "mode",
            "FROM upstream AS u",
            "RDER BY .* NULLS",
        ),
    ],
)
def test_some_hundred_cases_have_every_construct(construct):
    found = [job for _, job in JOBS if re.search(construct, job.query, re.IGNORECASE | re.DOTALL)]
    assert len(found) >= 2


def test_some_hundred_cases_have_every_type_and_change():
    tables = [case.table for case in CASES]
    assert {column.type for table in tables for column in table.groups} == set(GROUP_TYPES)
    assert {column.type for table in tables for column in table.values} == set(VALUE_TYPES)
    assert {kind for case in CASES for gap in case.upstream.gaps for kind in gap.changes} == set(CHANGES)
    assert {case.upstream.writer for case in CASES} == {"delta-rs", "spark"}
    assert any(case.upstream.rows == 0 for case in CASES)


def test_rows_that_are_only_appended_have_no_other_changes_and_many_kinds_of_queries():
    cases = [case for case in CASES if case.jobs[0].of_appended]
    assert len(cases) > 10
    assert {kind for case in cases for gap in case.upstream.gaps for kind in gap.changes} == set(APPENDS)
    queries = [job.query for case in cases for job in case.jobs]
    for construct in ("DISTINCT", "sum", "max", "WHERE", "WITH|FROM \\("):
        assert any(re.search(construct, query, re.IGNORECASE) for query in queries), construct


def test_rows_fall_into_few_groups_and_keep_their_keys_apart():
    for case in CASES[:30]:
        rows = MovingRows(case.upstream, values_of(case.table))
        now = rows.begin(case.upstream.rows)
        for kind in (*CHANGES, "return"):
            change = rows.change(kind, now)
            assert change.before == now
            now = change.after
            keys = [repr([row[i] for i in case.upstream.key_indices]) for row in now]
            assert len(set(keys)) == len(keys)
        if case.upstream.rows > 30:
            at = case.upstream.columns.index(case.table.groups[0])
            assert len({repr(row[at]) for row in rows.change("append", ()).after}) < 15


def test_removed_rows_come_back_under_their_keys():
    case = next(case for case in CASES if case.upstream.rows > 30)
    rows = MovingRows(case.upstream, values_of(case.table))
    before = rows.begin(case.upstream.rows)
    emptied = rows.change("empty", before)
    assert emptied.after == ()
    assert sorted(map(repr, rows.change("return", emptied.after).after)) == sorted(map(repr, before))


NAN = float("nan")


@pytest.mark.parametrize(
    ("wanted", "found", "missing", "more"),
    [
        ([(1, "a")], [(1, "a")], 0, 0),
        ([(1, "a"), (1, "a")], [(1, "a")], 1, 0),
        ([(1, 0.1 + 0.2)], [(1, 0.3)], 0, 0),
        ([(1, 0.3)], [(2, 0.3)], 1, 1),
        ([(1, 0.3)], [(1, 0.4)], 1, 1),
        ([(1, float("inf"))], [(1, 1e300)], 1, 1),
        ([(1, NAN)], [(1, 0.0)], 1, 1),
        ([(1, 5e9), (1, 1.0)], [(1, 1.0), (1, 5e9 + 1e-6)], 0, 0),
        ([(Decimal("1.0"),)], [(Decimal("1.00"),)], 1, 1),
        ([(None, 1.0)], [(None, None)], 1, 1),
    ],
)
def test_rows_differ_by_more_than_the_last_digits_of_floating_point_numbers(wanted, found, missing, more):
    left, unexpected = differences(wanted, found)
    assert (len(left), len(unexpected)) == (missing, more)
