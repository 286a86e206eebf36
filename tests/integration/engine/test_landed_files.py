"""Files that are not as they should be: corrected, moved, in folders of values, and with records that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider import protocol
from airflow_backfill_provider.applications.connect import connected
from airflow_backfill_provider.applications.connect_engine import ConnectEngine
from airflow_backfill_provider.core.errors import UnsupportedValueError, UpstreamError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.core.status.alarm import AlarmKind
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.sources.shared.formats.portable_values import NO_DATE
from airflow_backfill_provider.strategies.source.location import dead_letters_of
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.landing import Landing

pytestmark = pytest.mark.spark


def values_of(house: Lakehouse, *names: str) -> list[tuple[Any, ...]]:
    """Return some columns of the view."""
    return sorted((tuple(row) for row in house.view().select(*names).collect()), key=str)


@pytest.fixture
def jsons(lakehouse: Lakehouse) -> Landing:
    """A folder with a file of ten rows, which the job has read."""
    found = Landing(lakehouse, "json")
    found.put("good", 0)
    return found


def lines(*ids: object) -> str:
    return "".join(json.dumps({"id": number}) + "\n" for number in ids)


@pytest.mark.exhaustive
def test_a_file_with_a_bad_value_may_be_corrected(jsons: Landing) -> None:
    """I4, I6: with another number of rows, too. The error says that, and the next epoch reads it."""
    jsons.create(query="SELECT id FROM upstream")
    jsons.house.finish()
    bad = jsons.folder / "bad.json"
    bad.write_text(lines(100, "x", 102))
    with pytest.raises(UnsupportedValueError, match=r"record 2 of .*bad\.json: .*run the next epoch"):
        jsons.house.epoch()
    bad.write_text(lines(100, 102))
    assert [alarm.kind for alarm in jsons.house.backfill.status().alarms] == [AlarmKind.STALLED]
    jsons.put("more", 200)
    assert jsons.house.epoch() is not None
    assert values_of(jsons.house, "id") == sorted([(one,) for one in (*range(10), 100, 102, *range(200, 210))], key=str)
    compared = verifier.compare_now(jsons.house.backfill, jsons.house.engine)
    assert (compared.equal, compared.removed_rows) == (True, 0)
    bad.write_text(lines(100, 103))
    with pytest.raises(UpstreamError, match=r"bad\.json of .* changed .* rows of it may be in the view"):
        jsons.house.epoch()


@pytest.mark.exhaustive
def test_a_file_of_which_the_first_rows_were_read_may_not_be_corrected(lakehouse: Lakehouse) -> None:
    """I6: nobody knows whether they are the same."""
    jsons = Landing(lakehouse, "json")
    bad = jsons.folder / "bad.json"
    bad.write_text(lines(1, 2, 3, "x"))
    jsons.create(query="SELECT id FROM upstream", rate_limit=2)
    jsons.house.epoch()
    with pytest.raises(UnsupportedValueError, match="record 4"):
        jsons.house.epoch()
    bad.write_text(lines(1, 2, 3, 4))
    with pytest.raises(UpstreamError, match="rows of it may be in the view"):
        jsons.house.epoch()


@pytest.mark.exhaustive
def test_a_file_that_is_moved_is_not_read_again(jsons: Landing) -> None:
    """I1: also if it was not read yet."""
    jsons.put("other", 50)
    jsons.create(query="SELECT id, name FROM upstream", rate_limit=4)
    jsons.house.epoch()
    (jsons.folder / "processed").mkdir()
    for name in ("good", "other"):
        (jsons.folder / f"{name}.json").rename(jsons.folder / "processed" / f"{name}.json")
    jsons.put("new", 100)
    jsons.house.finish()
    jsons.assert_read()
    jsons.house.assert_truth()
    assert verifier.compare_now(jsons.house.backfill, jsons.house.engine).removed_rows == 0


def put_rows(folder: Path, kind: str, name: str, ids: list[int]) -> None:
    """Put a file with one column there."""
    file = folder / f"{name}.{kind}"
    file.parent.mkdir(parents=True, exist_ok=True)
    if kind == "parquet":
        pq.write_table(pa.table({"id": pa.array(ids, pa.int32())}), file)
    else:
        rows = lines(*ids) if kind == "json" else "".join(f"{number}\n" for number in ("id", *ids))
        file.write_text(rows)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_a_column_has_the_value_that_the_folder_says(lakehouse: Lakehouse, kind: str) -> None:
    """I1: as Hive and Spark write tables."""
    landing = Landing(lakehouse, kind)
    put_rows(landing.folder, kind, "year=2024/Day=2024-02-29/a", [1, 2])
    put_rows(landing.folder, kind, "year=__HIVE_DEFAULT_PARTITION__/day=2024-03-01/a", [3])
    if kind != "csv":
        put_rows(landing.folder, kind, "none", [4])
    landing.create(
        files={"schema": "id INT, day DATE, year SMALLINT"}, query="SELECT id, string(day) AS day, year FROM upstream"
    )
    lakehouse.finish()
    expected = [(1, "2024-02-29", 2024), (2, "2024-02-29", 2024), (3, "2024-03-01", None), (4, None, None)]
    assert values_of(lakehouse, "id", "day", "year") == expected[: 3 if kind == "csv" else 4]
    put_rows(landing.folder, kind, "year=70000/day=2024-03-01/b", [5])
    with pytest.raises(UnsupportedValueError, match="column year in the file's path does not fit"):
        lakehouse.epoch()
    (landing.folder / "year=2025").mkdir()
    (landing.folder / "year=70000" / "day=2024-03-01").rename(landing.folder / "year=2025" / "day=2024-03-01")
    assert lakehouse.epoch() is not None
    assert values_of(lakehouse, "id", "year")[-1] == (5, 2025)
    lakehouse.assert_truth()


BAD_ROWS = {"json": '{"id": 1}\n{"id": "x"}\nno json\n{"id": 2}\n', "csv": "id,name\n1,a\nx,b\n1\n2,c\n"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_records_that_do_not_fit_become_dead_letters(lakehouse: Lakehouse, kind: str) -> None:
    """I1: the view has all others, once, and a verification agrees."""
    landing = Landing(lakehouse, kind)
    file = landing.folder / f"a.{kind}"
    if kind == "parquet":
        names = pa.array([b"a", b"\xff", b"\xfe", b"c"], pa.binary())
        pq.write_table(pa.table({"id": pa.array([1, 7, 8, 2], pa.int64()), "name": names}), file)
    else:
        file.write_text(BAD_ROWS[kind])
    landing.create(
        files={"schema": "id BIGINT, name STRING", "unreadable_records": "dead_letter"},
        query="SELECT id FROM upstream",
        rate_limit=3,
    )
    lakehouse.finish()
    assert values_of(lakehouse, "id") == [(1,), (2,)]
    letters = lakehouse.spark.read.format("delta").load(dead_letters_of(lakehouse.backfill.settings()))
    assert [(row.record, row.file[-2 - len(kind) :]) for row in letters.orderBy("record").collect()] == [
        (2, f"a.{kind}"),
        (3, f"a.{kind}"),
    ]
    lakehouse.assert_truth()


@pytest.mark.exhaustive
def test_times_that_no_calendar_has_become_dead_letters(lakehouse: Lakehouse) -> None:
    """I6: Parquet files hold any; and columns that nothing declares may differ only in case."""
    landing = Landing(lakehouse, "parquet")
    instants = [0, 1_767_225_600_000_000_000, 0, -62_135_596_800_000_001, 253_402_300_799_999_999]
    days = [2_932_896, 0, 2_932_897, 0, -719_162]
    columns = {
        "id": pa.array(range(5), pa.int64()),
        "at": pa.array(instants, pa.int64()).cast(pa.timestamp("us", "UTC")),
        "days": pa.array([[day] for day in days], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
        "other": pa.array(range(5), pa.int64()),
        "OTHER": pa.array(range(5), pa.int64()),
    }
    pq.write_table(pa.table(columns), landing.folder / "a.parquet")
    landing.create(
        files={"schema": "id BIGINT, at TIMESTAMP, days ARRAY<DATE>", "unreadable_records": "dead_letter"},
        query="SELECT id, at, days FROM upstream",
    )
    lakehouse.finish()
    assert values_of(lakehouse, "id") == [(0,), (4,)]
    letters = lakehouse.spark.read.format("delta").load(dead_letters_of(lakehouse.backfill.settings()))
    assert {row.record: row.reason for row in letters.collect()} == {
        2: f"column at {NO_DATE}",
        3: f"column days {NO_DATE}",
        4: f"column at {NO_DATE}",
    }
    assert lakehouse.backfill.status().finished
    lakehouse.assert_truth()


NUMBERS = {"+2": 2.0, ".5": 0.5, "-.5": -0.5, "5.": 5.0, "1E3": 1000.0, "+.5e-1": 0.05, "inf": float("inf")}
NO_NUMBERS = ["1d", "1f", "0x1p3", "0x10", "1_000", "1,5", "--1", "+-1", ".", "+", "e1", "NaN1", "١"]


@pytest.mark.exhaustive
def test_numbers_and_booleans_of_csv_are_read_as_programs_write_them(lakehouse: Lakehouse) -> None:
    """Java's own notations are no numbers of CSV."""
    landing = Landing(lakehouse, "csv")
    rows = [
        *((text, "T") for text in NUMBERS),
        ("NaN", "no"),
        *((f'"{text}"', "true") for text in NO_NUMBERS),
        ("1", "tr"),
    ]
    (landing.folder / "a.csv").write_text("".join(f"{text}|{flag}\n" for text, flag in rows), encoding="utf-8")
    landing.create(
        files={
            "schema": "number DOUBLE, ok BOOLEAN",
            "header": False,
            "delimiter": "|",
            "unreadable_records": "dead_letter",
        },
        query="SELECT number, ok FROM upstream WHERE NOT isnan(number)",
    )
    lakehouse.finish()
    found = {row["number"] for row in lakehouse.view().collect()}
    assert found == {*NUMBERS.values()}
    letters = lakehouse.spark.read.format("delta").load(dead_letters_of(lakehouse.backfill.settings()))
    assert letters.count() == len(NO_NUMBERS) + 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("escape", ['"', "\\"])
def test_quotes_of_csv_are_escaped_as_the_definition_says(lakehouse: Lakehouse, escape: str) -> None:
    """I6: otherwise they are no part of a value."""
    landing = Landing(lakehouse, "csv")
    text = r'1,"say \"hi\""' if escape == "\\" else '1,"say ""hi"""'
    other = r'2,"say \"no\""' if escape == '"' else '2,"say ""no"""'
    (landing.folder / "a.csv").write_text(f'id,name\n{text}\n3,5" disk\n4,back\\slash\n')
    landing.create(files={"schema": "id INT, name STRING", "escape": escape}, query="SELECT id, name FROM upstream")
    lakehouse.finish()
    assert values_of(lakehouse, "id", "name") == [(1, 'say "hi"'), (3, '5" disk'), (4, "back\\slash")]
    (landing.folder / "b.csv").write_text(f"id,name\n{other}\n")
    with pytest.raises(UnsupportedValueError, match="record 1 of .* escape if "):
        lakehouse.epoch()


@pytest.mark.exhaustive
def test_a_wide_schema_of_json_is_read_by_a_client_of_a_server(
    lakehouse: Lakehouse, spark_remote: str, spark: SparkSession
) -> None:
    """A message to a Spark Connect server may have a hundred levels, and the plan of an epoch has many of them."""
    landing = Landing(lakehouse, "json")
    kinds = ("DECIMAL(12,2)", "TIMESTAMP", "FLOAT", "ARRAY<STRUCT<a: MAP<STRING, DECIMAL(5,1)>>>")
    schema = ", ".join(f"c{number} {kinds[number % len(kinds)]}" for number in range(40))
    landing.folder.joinpath("a.json").write_text('{"c0": 1.25}\n')
    lakehouse.define(
        upstream={"files": {"path": str(landing.folder), "format": "json", "schema": schema}},
        query="SELECT * FROM upstream",
    )
    backfill = lakehouse.backfill
    with connected(Remote.parse(spark_remote), what="wide") as connection:
        engine = ConnectEngine(connection, None, purpose="epoch")
        creation.create_job(
            backfill.job, store=backfill.store, upstream=backfill.upstream, engine=lambda: engine, requested_by="me"
        )
        landing.folder.joinpath("b.json").write_text('{"c1": "2024-01-01T00:00:00Z"}\n')
        injected = protocol.inject_barrier(
            store=backfill.store, upstream=backfill.upstream, requester=Requester(user="me")
        )
        assert injected.barrier is not None
        protocol.run_epoch(injected.barrier, store=backfill.store, engine=engine)
        assert verifier.compare_now(backfill, engine).removed_rows == 0
    assert spark.read.format("delta").load(backfill.job.materialized_view).count() == 2
