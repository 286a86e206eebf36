"""Which queries look like ones over several relations."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.joined.claims import looks_joined


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM b JOIN c USING (x)",
        "SELECT a FROM b, c WHERE b.x = c.x",
        "SELECT a FROM b AS x, c",
        "SELECT a FROM b x, c",
        "SELECT a FROM b UNION ALL SELECT a FROM c",
        "SELECT a FROM b EXCEPT SELECT a FROM c",
        "SELECT a FROM b WHERE x IN (SELECT x FROM c)",
        "SELECT a FROM b WHERE NOT EXISTS (SELECT 1 FROM c)",
    ],
)
def test_a_query_that_reads_several_relations_is_claimed(text):
    """Its refusal is then the one that users read."""
    assert looks_joined(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM b",
        "SELECT * EXCEPT (a) FROM b",
        "SELECT a FROM (SELECT a FROM b) c",
        "SELECT extract(day FROM t), a FROM b",
        "SELECT a.join, trim(BOTH 'x' FROM c) FROM b",
        "SELECT exists(a, x -> x > 1) FROM b WHERE c IN (1, 2)",
        "SELECT 'a JOIN b' FROM b",
        "not a query (",
    ],
)
def test_a_query_of_one_relation_is_not_claimed(text):
    """Another shape refuses it in its own words."""
    assert not looks_joined(text)
