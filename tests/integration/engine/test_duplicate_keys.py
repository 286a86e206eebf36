"""An upstream that has a key twice is refused, at creation or by the epoch that finds it (I6)."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.engine import spark_engine
from airflow_backfill_provider.spark import counted_keys
from airflow_backfill_provider.spark.job_rows import JobRows
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.refusals import assert_nothing_written
from tests.variants import exhaustive, mostly_exhaustive

pytestmark = pytest.mark.spark


def test_duplicate_keys_are_refused_at_creation(numbers: Lakehouse) -> None:
    numbers.sql("INSERT INTO {upstream} VALUES (4, 'again', 0)")
    with pytest.raises(errors.DuplicateKeyError, match=r"several rows with the same key \(id\)"):
        numbers.create()
    assert_nothing_written(numbers)


@pytest.mark.exhaustive
def test_duplicate_keys_of_a_large_upstream_are_refused_by_the_epoch_that_reads_them(
    numbers: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_engine, "CHECKED_AT_CREATION", 5)
    monkeypatch.setattr(counted_keys, "HASHES_IN_MEMORY", 5)
    numbers.sql("INSERT INTO {upstream} VALUES (7, 'again', 0)")
    numbers.create(strategy="no_shuffle", rate_limit=6)
    numbers.epoch()
    numbers.sql("UPDATE {upstream} SET name = 'changed' WHERE id = 0")
    with pytest.raises(errors.DuplicateKeyError, match=r"several rows with the same key \(id\)"):
        numbers.epoch()
    assert numbers.view().count() == 6
    assert not numbers.view().filter("name = 'changed'").count(), "nothing of the epoch is written"


def test_duplicate_keys_of_a_large_upstream_never_get_into_an_arrangement(
    numbers: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted_keys, "HASHES_IN_MEMORY", 5)
    numbers.sql("INSERT INTO {upstream} VALUES (7, 'again', 0)")
    with pytest.raises(errors.DuplicateKeyError, match=r"several rows with the same key \(id\)"):
        numbers.create(strategy="arrangement")
    assert_nothing_written(numbers)


@pytest.mark.exhaustive
def test_keys_that_differ_only_in_which_column_is_null_are_no_duplicates(lakehouse: Lakehouse) -> None:
    """Spark's hash of several columns skips nulls, so these keys have the same hash."""
    lakehouse.make_upstream("a BIGINT, b BIGINT")
    lakehouse.sql("INSERT INTO {upstream} VALUES (NULL, 1), (1, NULL), (NULL, NULL), (1, 1)")
    lakehouse.create(key=["a", "b"], rate_limit=3)
    assert sum(commit.snapshot_read_row_count for commit in lakehouse.finish()) == 4
    lakehouse.assert_truth()


@pytest.mark.exhaustive
def test_duplicate_key_inserted_later_is_refused_before_the_view_is_wrong(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5)
    numbers.epoch()
    numbers.sql("INSERT INTO {upstream} VALUES (2, 'again', 0)")
    barrier = numbers.inject()
    assert barrier is not None
    version = numbers.backfill.store.commits()[-1].view_version
    with pytest.raises(errors.DuplicateKeyError, match="a key that it already has"):
        numbers.run(barrier)
    assert numbers.view().count() == 5
    assert set(numbers.view_events(after=version)) == {"given_up"}


def test_numbers_that_are_no_duplicates_are_found_without_spark(
    numbers: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers.create(strategy="snapshot", query="SELECT name, count(*) AS articles FROM upstream GROUP BY name")
    for asked in ("measure_chunk", "has_several"):
        monkeypatch.setattr(JobRows, asked, lambda *_, **__: pytest.fail("Spark was asked"))
    numbers.sql("DELETE FROM {upstream} WHERE id = 4")
    numbers.finish()
    numbers.sql("INSERT INTO {upstream} VALUES (4, 'again', 0)")
    numbers.epoch()
    monkeypatch.undo()
    numbers.assert_truth()


@pytest.mark.parametrize("strategy", ["snapshot", exhaustive("no_shuffle")])
def test_spark_has_the_last_word_on_the_number_of_rows(
    numbers: Lakehouse, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    monkeypatch.setattr(JobRows, "count_of_single_keys", lambda *_: 8)
    numbers.create(strategy=strategy)
    numbers.finish()
    assert numbers.view().count() == 9


DUPLICATES = {
    "in one commit": ["INSERT INTO {upstream} VALUES (70, 'a', 0), (70, 'b', 0)"],
    "in two commits": ["INSERT INTO {upstream} VALUES (70, 'a', 0)", "INSERT INTO {upstream} VALUES (70, 'b', 0)"],
    "in place of a deleted one": [
        "DELETE FROM {upstream} WHERE id = 3",
        "INSERT INTO {upstream} VALUES (3, 'a', 0)",
        "INSERT INTO {upstream} VALUES (3, 'b', 0)",
    ],
}

QUICK = {"in two commits"}


@pytest.mark.parametrize("case", mostly_exhaustive(DUPLICATES, QUICK))
def test_duplicate_key_in_one_window_is_refused(numbers: Lakehouse, case: str) -> None:
    numbers.create()
    numbers.finish()
    for statement in DUPLICATES[case]:
        numbers.sql(statement)
    with pytest.raises(errors.DuplicateKeyError):
        numbers.epoch()
    assert {row["id"] for row in numbers.view().collect()} == set(range(9))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("visibility", "row"),
    [
        ("every_epoch", "(2, 'left out', -1)"),
        ("on_finish", "(2, 'again', 0)"),
        ("on_finish", "(2, 'left out', -1)"),
    ],
)
def test_duplicate_key_of_a_row_that_was_read_is_refused(numbers: Lakehouse, visibility: str, row: str) -> None:
    """The query may leave out the second row. Without the refusal the view would lose the first one."""
    numbers.create(
        rate_limit=5, strategy="no_shuffle", visibility=visibility, query="SELECT * FROM upstream WHERE price >= 0"
    )
    numbers.epoch()
    numbers.sql(f"INSERT INTO {{upstream}} VALUES {row}")
    with pytest.raises(errors.DuplicateKeyError, match="a key that it already has"):
        numbers.finish()


def last_vnode(numbers: Lakehouse, first: int, last: int) -> int:
    """Return a number from the range that is in the vnode that is read last."""
    rows = numbers.sql(f"SELECT id FROM range({first}, {last}) WHERE pmod(hash(id), 4) = 3")
    return int(rows.head()["id"])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("new", "epochs_between"),
    [
        (False, 0),
        (True, 1),
        (True, 0),
    ],
)
def test_duplicate_key_of_a_row_that_only_the_arrangement_has_is_refused(
    numbers: Lakehouse, new: bool, epochs_between: int
) -> None:
    """The first row is in the arrangement's base, or in its changes, of the same epoch or of an earlier one."""
    numbers.create(rate_limit=2, strategy="arrangement")
    numbers.epoch()
    if new:
        number = last_vnode(numbers, 100, 200)
        numbers.sql(f"INSERT INTO {{upstream}} VALUES ({number}, 'once', 0)")
    else:
        number = last_vnode(numbers, 0, 9)
    for _ in range(epochs_between):
        numbers.epoch()
    numbers.sql(f"INSERT INTO {{upstream}} VALUES ({number}, 'again', 0)")
    with pytest.raises(errors.DuplicateKeyError):
        numbers.finish()
    assert numbers.view().filter(f"id = {number}").count() == 0
