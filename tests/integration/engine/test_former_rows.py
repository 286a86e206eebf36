"""Views that keep former rows, on real Spark and Delta: each row from the version that wrote it to its end."""

from __future__ import annotations

import pytest

from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

QUERY = "SELECT id, amount * 10 AS cents FROM upstream WHERE amount > 0"


def history(lakehouse: Lakehouse) -> list[tuple[object, ...]]:
    rows = lakehouse.view().select("id", "cents", "_valid_from", "_valid_to", "_is_current").collect()
    return sorted((tuple(row) for row in rows), key=repr)


def begin(lakehouse: Lakehouse, **fields: object) -> None:
    lakehouse.make_upstream("id BIGINT, amount INT, note STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, CAST(id + 1 AS INT), 'a' FROM range(6)")
    lakehouse.create(**{"query": QUERY, "strategy": "snapshot", "keep": "history", **fields})


@pytest.mark.parametrize("strategy", ["snapshot", "no_shuffle", "arrangement"])
def test_two_changes_in_one_window_are_two_rows(lakehouse: Lakehouse, strategy: str) -> None:
    begin(lakehouse, strategy=strategy)
    lakehouse.finish()
    lakehouse.assert_truth()
    lakehouse.sql("UPDATE {upstream} SET amount = 50 WHERE id = 1")  # 2
    lakehouse.sql("UPDATE {upstream} SET amount = 51 WHERE id = 1")  # 3
    lakehouse.sql("UPDATE {upstream} SET note = 'b'")  # 4
    lakehouse.sql("DELETE FROM {upstream} WHERE id = 2")  # 5
    lakehouse.sql("INSERT INTO {upstream} VALUES (2, 3, 'c'), (9, 9, 'c')")  # 6
    lakehouse.sql("UPDATE {upstream} SET amount = -1 WHERE id = 9")  # 7
    lakehouse.sql("UPDATE {upstream} SET id = 20 WHERE id = 3")  # 8
    lakehouse.finish()
    assert history(lakehouse) == sorted(
        [
            (0, 10, 1, None, True),
            (1, 20, 1, 2, False),
            (1, 500, 2, 3, False),
            (1, 510, 3, None, True),
            (2, 30, 1, 5, False),
            (2, 30, 6, None, True),
            (9, 90, 6, 7, False),
            (3, 40, 1, 8, False),
            (20, 40, 8, None, True),
            (4, 50, 1, None, True),
            (5, 60, 1, None, True),
        ],
        key=repr,
    )
    lakehouse.assert_truth()
