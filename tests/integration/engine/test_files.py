"""A folder of files becomes a view, epoch by epoch: every row of every file exactly once."""

from __future__ import annotations

import gzip
import os

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    UnsupportedValueError,
    UpstreamError,
    UpstreamNotFoundError,
)
from airflow_backfill_provider.jobs.verification import verifier
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.landing import SCHEMA, Landing
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


class DiedError(Exception):
    """An attempt died."""


@pytest.fixture(params=[exhaustive("json"), exhaustive("csv"), "parquet"])
def landing(lakehouse: Lakehouse, request: pytest.FixtureRequest) -> Landing:
    """A folder with five files, one of them deeper."""
    found = Landing(lakehouse, request.param)
    for number in range(4):
        found.put(f"f{number}", number * 100)
    found.put("day=1/{a} b*+%?,ü", 900)
    (found.folder / "_temporary").mkdir()
    for hidden in ("_part", ".part", "_temporary/part"):
        (found.folder / hidden).write_text("no row")
    return found


@pytest.fixture
def jsons(lakehouse: Lakehouse) -> Landing:
    """A folder with three files."""
    found = Landing(lakehouse, "json")
    for number in range(3):
        found.put(f"f{number}", number * 100)
    return found


@pytest.mark.exhaustive
def test_the_past_is_read_in_bounded_epochs_and_files_that_come_meanwhile_once(landing: Landing) -> None:
    """I1 to I4: cuts inside of files."""
    landing.create(rate_limit=13)
    counts = []
    for number in range(3):
        commit = landing.house.epoch()
        assert commit is not None
        counts.append(commit.rows_read)
        landing.put(f"later{number}", 2000 + number * 100, 3)
    assert counts == [13, 26, 39]
    landing.house.assert_truth()
    landing.house.finish()
    assert landing.house.backfill.status().finished
    landing.put("last", 5000)
    assert landing.house.epoch() is not None
    assert landing.house.epoch() is None
    landing.assert_read()
    landing.house.assert_truth()
    prices = {row["price"] for row in landing.house.view().select("price").collect()}
    assert {str(price) for price in prices} == {"None" if landing.kind == "parquet" else "1.25"}


@pytest.mark.exhaustive
def test_a_file_that_changed_is_refused(jsons: Landing) -> None:
    """I6: whether it was read or not."""
    jsons.create(rate_limit=13)
    jsons.house.epoch()
    jsons.put("f0", 0, 11)
    with pytest.raises(UpstreamError, match=r"file f0\.json of .* changed after it was added"):
        jsons.house.epoch()


def test_a_file_that_vanished_before_it_was_read_is_refused(jsons: Landing) -> None:
    """I6."""
    jsons.create(rate_limit=3)
    jsons.house.epoch()
    (jsons.folder / "f1.json").unlink()
    with pytest.raises(ChangeFeedGapError, match=r"file f1\.json of .* is gone"):
        jsons.house.epoch()


@pytest.mark.exhaustive
def test_a_file_may_be_removed_after_it_was_read(jsons: Landing) -> None:
    jsons.create()
    jsons.house.finish()
    (jsons.folder / "f1.json").unlink()
    jsons.put("new", 700)
    jsons.house.finish()
    jsons.assert_read()
    compared = verifier.compare_now(jsons.house.backfill, jsons.house.engine)
    assert (compared.equal, compared.removed_rows) == (True, 10)


def test_a_folder_that_is_gone_is_refused(lakehouse: Lakehouse) -> None:
    lakehouse.define(upstream={"files": {"path": "/no/such", "format": "json", "schema": SCHEMA}})
    with pytest.raises(UpstreamNotFoundError, match="there is no folder /no/such"):
        lakehouse.backfill.upstream.at()


@pytest.mark.exhaustive
def test_two_task_runs_share_the_splits(landing: Landing) -> None:
    landing.create(rate_limit=20, parallelism=2)
    commits = landing.house.finish()
    assert [commit.rows_read for commit in commits] == [20, 40, 50]
    landing.assert_read()


@pytest.mark.exhaustive
def test_attempts_that_died_leave_every_row_once(jsons: Landing) -> None:
    """I2."""
    jsons.create(rate_limit=12)
    points = (
        CrashPoint.BEFORE_LANDING_COMMIT,
        CrashPoint.AFTER_LANDING_COMMIT,
        CrashPoint.AFTER_PIN,
        CrashPoint.AFTER_SNAPSHOT_COMMIT,
        CrashPoint.AFTER_STATE_COMMIT,
    )
    for number, point in enumerate(points):

        def die(reached: CrashPoint, point: CrashPoint = point) -> None:
            if reached is point:
                raise DiedError

        jsons.put(f"new{number}", 1000 + 100 * number)
        crash_points.install(die)
        try:
            with pytest.raises(DiedError):
                jsons.house.epoch()
        finally:
            crash_points.install(None)
    jsons.house.finish()
    jsons.assert_read()
    jsons.house.assert_truth()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "line", "problem"),
    [
        ("json", '{"id": "x"}', "id is no BIGINT"),
        ("json", '{"id": 1, "price": 1.239}', "price is no DECIMAL"),
        ("json", '{"id": 1', "is no JSON object"),
        ("csv", "x,a,1", "column id does not fit"),
        ("csv", "1,a,1.239", "column price does not fit"),
        ("csv", "1,a", "not as many values"),
        ("csv", "1,a,1,2", "not as many values"),
        ("csv", '1,"a\nb",2', "quoted value that does not end in its line"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_and_never_null(
    lakehouse: Lakehouse, kind: str, line: str, problem: str
) -> None:
    """I6: the message names the file and the record, and quotes no value."""
    landing = Landing(lakehouse, kind)
    landing.put("good", 0)
    landing.create()
    lakehouse.finish()
    header = "id,name,price\n" if kind == "csv" else ""
    (landing.folder / f"bad.{kind}").write_text(header + line + "\n")
    with pytest.raises(BackfillError, match=problem) as raised:
        lakehouse.epoch()
    assert isinstance(raised.value, UnsupportedValueError | UpstreamError)
    assert "record 1" in str(raised.value)
    assert f"bad.{kind}" in str(raised.value)
    landing.assert_read()


def test_values_of_csv(lakehouse: Lakehouse) -> None:
    """Nothing is a null, and quotes around nothing are an empty text."""
    landing = Landing(lakehouse, "csv")
    lines = [
        '1|a "quoted" b|true|2024-01-01|1e3\r',
        "2||TRUE||",
        '3|""|false|2024-01-02|-0.5',
        '4|"x|""y"""||0001-01-01|',
    ]
    with gzip.open(landing.folder / "a.csv.gz", "wt", newline="") as file:
        file.write("\n".join(lines) + "\n")
    landing.create(
        files={
            "schema": "id INT, text STRING, ok BOOLEAN, day DATE, number DOUBLE",
            "header": False,
            "delimiter": "|",
        },
        query="SELECT id, text, ok, string(day) AS day, number FROM upstream",
    )
    lakehouse.finish()
    found = sorted(tuple(row)[:5] for row in lakehouse.view().select("id", "text", "ok", "day", "number").collect())
    assert found == [
        (1, 'a "quoted" b', True, "2024-01-01", 1000.0),
        (2, None, True, None, None),
        (3, "", False, "2024-01-02", -0.5),
        (4, 'x|"y"', None, "0001-01-01", None),
    ]


@pytest.mark.exhaustive
def test_another_header_is_refused(lakehouse: Lakehouse) -> None:
    landing = Landing(lakehouse, "csv")
    landing.create()
    lakehouse.finish()
    (landing.folder / "a.csv").write_text("name,id,price\na,1,2\n")
    with pytest.raises(UpstreamError, match=r"a\.csv of .* begins with other names than those of schema"):
        lakehouse.epoch()


@pytest.mark.exhaustive
def test_rows_are_counted_again_when_they_are_read(jsons: Landing) -> None:
    """I6: a file that was replaced by another one of the same size and time is noticed by its number of rows."""
    jsons.create(rate_limit=3)
    jsons.house.epoch()
    file = jsons.folder / "f1.json"
    stat = file.stat()
    file.write_text("{}".ljust(stat.st_size))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(UpstreamError, match="not those that were asked for"):
        jsons.house.finish()
