"""Data that its owner corrects costs no rebuild: the epoch is given up, and a new one is pinned."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.engine import spark_engine
from airflow_backfill_provider.jobs import mutations
from tests.dying import dies_at
from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

HALVES = "SELECT id, name, 100 div part AS share FROM upstream"
OTHER = [exhaustive("no_shuffle"), "arrangement"]
EITHER = ["no_shuffle", exhaustive("arrangement")]


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Lakehouse:
    """An upstream of nine rows in one version."""
    lakehouse.make_upstream("id BIGINT, name STRING, part INT")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id), 1 FROM range(9)")
    return lakehouse


def spoil(numbers: Lakehouse, *ids: int) -> None:
    numbers.change(f"UPDATE {{upstream}} SET part = 0 WHERE id IN ({', '.join(map(str, ids))})")


def heal(numbers: Lakehouse) -> None:
    numbers.change("UPDATE {upstream} SET part = 2 WHERE part = 0")


def refused(numbers: Lakehouse, error: type[errors.BackfillError], most: int = 9) -> errors.BackfillError:
    """Run epochs up to the one that is given up."""
    with pytest.raises(error, match="is given up") as caught:
        numbers.finish(most)
    if numbers.backfill.status().upstream_version is not None:
        numbers.assert_truth()
    return caught.value


def finish(numbers: Lakehouse, incarnation: str) -> None:
    numbers.finish()
    numbers.assert_truth()
    settings = numbers.backfill.settings()
    assert settings.incarnation == incarnation, "no rebuild"
    assert numbers.backfill.store.state().completed
    wanted = numbers.spark.sql(f"{numbers.job.query.replace('upstream', numbers.upstream)}").collect()
    assert sorted(numbers.view().collect()) == sorted(wanted)


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_a_row_of_the_first_chunk_that_the_query_fails_on_is_corrected(numbers: Lakehouse, strategy: str) -> None:
    spoil(numbers, *range(9))
    incarnation = numbers.create(rate_limit=4, strategy=strategy, query=HALVES).incarnation
    refused(numbers, errors.QueryFailedError)
    heal(numbers)
    finish(numbers, incarnation)


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", OTHER)
def test_a_row_of_a_later_chunk_is_corrected_while_other_rows_change(numbers: Lakehouse, strategy: str) -> None:
    """The changes of the same window are applied by then, and stay."""
    incarnation = numbers.create(rate_limit=4, strategy=strategy, query=HALVES).incarnation
    numbers.epoch()
    numbers.change("UPDATE {upstream} SET name = 'changed'")
    spoil(numbers, *(set(range(9)) - {row["id"] for row in numbers.view().collect()}))
    refused(numbers, errors.QueryFailedError)
    heal(numbers)
    numbers.change("DELETE FROM {upstream} WHERE id IN (0, 8)")
    finish(numbers, incarnation)


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_a_row_of_a_finished_view_is_corrected(numbers: Lakehouse, strategy: str) -> None:
    incarnation = numbers.create(strategy=strategy, query=HALVES).incarnation
    numbers.finish()
    spoil(numbers, 3)
    numbers.change("INSERT INTO {upstream} VALUES (20, 'new', 1)")
    refused(numbers, errors.QueryFailedError)
    refused(numbers, errors.QueryFailedError)
    heal(numbers)
    finish(numbers, incarnation)


@pytest.mark.exhaustive
def test_a_window_with_the_bad_row_and_its_correction_is_applied(numbers: Lakehouse) -> None:
    incarnation = numbers.create(query=HALVES).incarnation
    numbers.finish()
    spoil(numbers, 3)
    heal(numbers)
    finish(numbers, incarnation)


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", EITHER)
def test_waiting_changes_of_a_bad_row_are_corrected(numbers: Lakehouse, strategy: str) -> None:
    """Nothing is removed from the view to make room for a row that the query fails on."""
    incarnation = numbers.create(rate_limit=5, strategy=strategy, visibility="on_finish", query=HALVES).incarnation
    numbers.epoch()
    read = sorted(row["id"] for row in numbers.view().collect())
    spoil(numbers, read[0])
    refused(numbers, errors.QueryFailedError)
    assert sorted(row["id"] for row in numbers.view().collect()) == read
    heal(numbers)
    finish(numbers, incarnation)


@pytest.mark.exhaustive
def test_a_repair_of_a_bad_row_is_requested_again(numbers: Lakehouse) -> None:
    incarnation = numbers.create(query=HALVES).incarnation
    numbers.finish()
    spoil(numbers, 4)
    mutations.repair_job(keys=[[4]], store=numbers.backfill.store, requested_by="x")
    refused(numbers, errors.QueryFailedError)
    assert numbers.view().count() == 9
    heal(numbers)
    barrier = numbers.inject()
    assert barrier is not None
    assert barrier.repair.keys
    finish(numbers, incarnation)


@pytest.mark.exhaustive
def test_duplicates_in_a_chunk_are_removed(numbers: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_engine, "CHECKED_AT_CREATION", 4)
    incarnation = numbers.create(rate_limit=4, strategy="no_shuffle").incarnation
    numbers.epoch()
    numbers.change("INSERT INTO {upstream} VALUES (6, 'again', 1)")
    refused(numbers, errors.DuplicateKeyError)
    numbers.change("DELETE FROM {upstream} WHERE id = 6 AND name = 'again'")
    finish(numbers, incarnation)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kept", ["again", "n"])
def test_duplicates_that_only_the_arrangement_has_are_removed(numbers: Lakehouse, kept: str) -> None:
    """Whichever of the two rows is left, the view gets it."""
    incarnation = numbers.create(rate_limit=2, strategy="arrangement").incarnation
    numbers.epoch()
    number = last_vnode(numbers)
    numbers.change(f"INSERT INTO {{upstream}} VALUES ({number}, 'again', 1)")
    refused(numbers, errors.DuplicateKeyError)
    numbers.change(f"DELETE FROM {{upstream}} WHERE id = {number} AND name NOT LIKE '{kept}%'")
    finish(numbers, incarnation)


def last_vnode(numbers: Lakehouse) -> int:
    rows = numbers.sql("SELECT max(id) AS id FROM {upstream} WHERE pmod(hash(id), 4) = 3")
    return int(rows.head()["id"])


@pytest.mark.parametrize("point", [exhaustive(CrashPoint.AFTER_CHUNK_FENCE), CrashPoint.BEFORE_GIVING_UP])
def test_giving_up_that_died_is_completed(numbers: Lakehouse, point: CrashPoint) -> None:
    incarnation = numbers.create(rate_limit=4, strategy="no_shuffle", query=HALVES).incarnation
    numbers.epoch()
    spoil(numbers, 5)
    barrier = numbers.inject()
    assert barrier is not None
    with dies_at(point):
        numbers.run(barrier)
    heal(numbers)
    with pytest.raises(errors.BackfillError, match="given up"):
        numbers.run(barrier)
    assert numbers.view_events()[-1] == "given_up"
    with pytest.raises(errors.EpochGivenUpError):
        numbers.run(barrier)
    finish(numbers, incarnation)
