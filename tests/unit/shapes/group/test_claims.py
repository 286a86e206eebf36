"""Whose refusal users read."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.group.claims import looks_grouped


@pytest.mark.parametrize(
    ("query", "looks"),
    [
        ("SELECT c FROM upstream GROUP BY c LIMIT 1", True),
        ("SELECT DISTINCT c FROM upstream", True),
        ("SELECT max(c) FROM upstream", True),
        ("SELECT rank() OVER (ORDER BY c) FROM upstream", True),
        ("FROM upstream |> AGGREGATE count(*) AS n", True),
        ("SELECT c FROM upstream LIMIT 1", False),
        ("SELECT c FROM upstream WHERE a IS DISTINCT FROM b", False),
        ("SELECT explode(c) FROM upstream", False),
        ("SELECT 'GROUP BY' FROM upstream -- GROUP BY", False),
        ("SELECT 'open FROM upstream GROUP BY c", False),
    ],
)
def test_a_query_is_claimed_by_its_words_outside_of_texts(query, looks):
    assert looks_grouped(query) is looks
