"""A query in steps gives the view that one SELECT gives: WITH, subqueries in FROM, and pipe operators."""

from __future__ import annotations

import pytest

from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

CHAINS = {
    "WITH": (
        "arrangement",
        """
        WITH upstream AS (SELECT *, amount * 100 AS cents FROM upstream AS u WHERE u.amount >= 0), -- all that is paid
             named AS (SELECT t.cents, concat(name, '|>') AS id FROM (SELECT * FROM upstream) AS t -- not the key
                       WHERE cents < 5000)
        SELECT cents + 1 AS cents, id FROM named WHERE id <> 'FROM upstream'
        """,
        "SELECT amount * 100 + 1 AS cents, concat(name, '|>') AS id, id AS __key_id FROM {upstream} "
        "WHERE amount >= 0 AND amount < 50",
    ),
    "pipes": (
        "no_shuffle",
        """
        FROM upstream -- all
        |> WHERE amount >= 0
        |> EXTEND amount * 100 AS cents, (id) AS old
        |> SET id = id + 1, name = upper(name) |> DROP old |> AS t |> WHERE t.cents < 5000
        |> SELECT name, id, cents -- that is all
        """,
        "SELECT upper(name) AS name, id + 1 AS id, amount * 100 AS cents, id AS __key_id FROM {upstream} "
        "WHERE amount >= 0 AND amount < 50",
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("written", ["pipes", "WITH"])
def test_a_query_in_steps_gives_the_same_view_as_one_select(lakehouse: Lakehouse, written: str) -> None:
    """I1: through changes that enter and leave the filter, with the key in a hidden column."""
    strategy, query, flat = CHAINS[written]
    lakehouse.make_upstream("id BIGINT, name STRING, amount BIGINT")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id), id - 2 FROM range(60)")
    lakehouse.create(strategy=strategy, rate_limit=25, query=query)
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET amount = amount - 10 WHERE id % 3 = 0")
    lakehouse.sql("DELETE FROM {upstream} WHERE id % 7 = 0")
    lakehouse.epoch()
    lakehouse.assert_truth()
    lakehouse.finish()
    lakehouse.assert_truth()
    lakehouse.assert_equals_query(flat)
