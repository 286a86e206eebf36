"""A key that the upstream has twice until its owner corrects it never costs a rebuild."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import DuplicateKeyError
from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive, mostly_exhaustive

pytestmark = pytest.mark.spark

SECOND = "INSERT INTO {upstream} VALUES ({key}, 300, 'second')"
CORRECTIONS = {
    "the second row goes": [SECOND, "DELETE FROM {upstream} WHERE id = {key} AND note = 'second'"],
    "the first row goes": [SECOND, "DELETE FROM {upstream} WHERE id = {key} AND note <> 'second'"],
    "both go and one comes": [
        SECOND,
        "DELETE FROM {upstream} WHERE id = {key}",
        "INSERT INTO {upstream} VALUES ({key}, 30, 'third')",
    ],
    "both go": [SECOND, "DELETE FROM {upstream} WHERE id = {key}"],
    "the table is written without repetitions": [
        "INSERT INTO {upstream} SELECT * FROM {upstream} WHERE id = {key}",
        "INSERT OVERWRITE {upstream} SELECT DISTINCT * FROM {upstream}",
    ],
    "the second row gets a key of its own": [
        SECOND,
        "UPDATE {upstream} SET id = {key} + 100 WHERE id = {key} AND note = 'second'",
    ],
}
QUERY = "SELECT id, amount * 2 AS doubled, note FROM upstream WHERE amount < 1000"
SHAPES = {
    "no_shuffle": {"strategy": "no_shuffle"},
    "on_finish": {"strategy": "no_shuffle", "visibility": "on_finish"},
    "arrangement": {"strategy": "arrangement"},
    "arrangement, on_finish": {"strategy": "arrangement", "visibility": "on_finish"},
}


def begun(lakehouse: Lakehouse, **fields) -> Lakehouse:
    """Make a job over twelve rows that has read some of them."""
    lakehouse.make_upstream("id BIGINT, amount BIGINT, note STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, id, 'first' FROM range(12)")
    lakehouse.create(query=QUERY, rate_limit=5, **fields)
    lakehouse.epoch()
    return lakehouse


def assert_whole(lakehouse: Lakehouse) -> None:
    lakehouse.finish()
    lakehouse.assert_equals_query(QUERY.replace("upstream", "{upstream}"))
    assert lakehouse.backfill.status().finished


QUICK = ("both go and one comes", "the second row gets a key of its own")


@pytest.mark.exhaustive
@pytest.mark.parametrize("corrections", [QUICK, exhaustive(tuple(CORRECTIONS))], ids=["some", "all"])
@pytest.mark.parametrize("shape", mostly_exhaustive(SHAPES, ["arrangement"]))
def test_a_window_with_mistakes_and_their_corrections_is_applied(
    lakehouse: Lakehouse, shape: str, corrections: tuple[str, ...]
) -> None:
    """I1: the view gets the last state of read and unread rows, also once it is finished."""
    begun(lakehouse, **SHAPES[shape])
    for first_key in (0, 6):
        for key, correction in enumerate(corrections, start=first_key):
            for statement in CORRECTIONS[correction]:
                lakehouse.sql(statement.replace("{key}", str(key)))
        assert_whole(lakehouse)


@pytest.mark.parametrize(
    ("shape", "key"),
    [
        exhaustive("no_shuffle", 0, name="of a row that was read"),
        exhaustive("arrangement", 0, name="of a row that was read, arranged"),
        exhaustive("no_shuffle", 11, name="of a row that was not read"),
        exhaustive("arrangement", 11, name="of a row that was not read, arranged"),
        exhaustive("arrangement, on_finish", 0, name="of a row that was read, arranged, while changes wait"),
        exhaustive("arrangement, on_finish", 11, name="of a row that was not read, arranged, while changes wait"),
    ],
)
def test_a_refused_window_is_applied_once_it_is_corrected(lakehouse: Lakehouse, shape: str, key: int) -> None:
    """I6: no epoch that can never run stays pinned."""
    begun(lakehouse, **SHAPES[shape])
    lakehouse.sql(f"INSERT INTO {{upstream}} VALUES ({key}, 300, 'second')")
    with pytest.raises(DuplicateKeyError):
        lakehouse.finish()
    lakehouse.sql(f"DELETE FROM {{upstream}} WHERE id = {key} AND note = 'first'")
    assert_whole(lakehouse)
