"""Which job's table lies at a materialized view's path."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.lake.tables.view_identity import (
    FINISHED_PROPERTY,
    INCARNATION_PROPERTY,
    JOB_PROPERTY,
    ViewIdentity,
    remove_uncommitted_files,
    require_view,
    view_identity,
    view_properties,
)
from tests.builders import job_of, settings_of


def make(path, **properties):
    schema = pa.schema([("id", pa.int64())])
    DeltaTable.create(str(path), schema, configuration=properties, raise_if_key_not_exists=False)


def test_a_view_belongs_to_its_job_and_incarnation(lake):
    properties = {
        JOB_PROPERTY: "paid_orders",
        INCARNATION_PROPERTY: "a1",
        FINISHED_PROPERTY: "false",
        "owner": "o'brien",
    }
    make(lake / "view", **properties)
    assert view_identity(str(lake / "view")) == ViewIdentity("paid_orders", "a1")
    assert view_properties(str(lake / "view")) == properties


def test_a_view_that_does_not_name_its_incarnation_belongs_to_its_job(lake):
    make(lake / "view", **{JOB_PROPERTY: "paid_orders"})
    assert view_identity(str(lake / "view")) == ViewIdentity("paid_orders", "")


def test_a_view_of_another_incarnation_or_none_is_not_the_jobs(lake):
    settings = settings_of(job_of(materialized_view=str(lake / "view")), incarnation="a1")
    with pytest.raises(MaterializedViewError, match="does not hold the view of job paid_orders"):
        require_view(settings)
    make(lake / "view", **{JOB_PROPERTY: "paid_orders", INCARNATION_PROPERTY: "a1"})
    assert require_view(settings) == ViewIdentity("paid_orders", "a1")
    with pytest.raises(MaterializedViewError, match="it was dropped, replaced or never created"):
        require_view(settings.model_copy(update={"incarnation": "b2"}))


@pytest.mark.parametrize("place", ["nothing", "empty"])
def test_a_free_path_has_no_view(lake, place):
    (lake / "empty").mkdir()
    assert view_identity(str(lake / place)) is None
    assert view_properties(str(lake / place)) is None


def test_another_table_is_refused(lake):
    """I6: the path holds another table."""
    make(lake / "view", owner="somebody")
    with pytest.raises(MaterializedViewError, match="holds another table, not a materialized view of this package"):
        view_identity(str(lake / "view"))


@pytest.mark.parametrize(
    "is_file",
    [
        False,
        pytest.param(True),
    ],
)
def test_other_files_are_refused(lake, is_file):
    place = lake / "view"
    if is_file:
        place.write_text("x")
    else:
        place.mkdir()
        (place / "data.csv").write_text("x")
    with pytest.raises(
        MaterializedViewError, match="holds files, but no (readable )?Delta table; choose an empty folder"
    ):
        view_identity(str(place))


def test_files_of_a_dead_creator_are_no_obstacle(lake):
    """I2: it had not committed anything."""
    log = lake / "view" / "_delta_log"
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.5d3c.tmp").write_text("{")
    assert view_identity(str(lake / "view")) is None
    remove_uncommitted_files(str(lake / "view"))
    assert not log.exists()


PART = "part-00000-2ce95b18-4056-4065-8b16-21b22adb500d-c000.snappy.parquet"


def left_by_a_creation(place, part):
    """Leave the files of a CREATE TABLE AS SELECT of no rows that Delta refuses, or that dies."""
    (place / "_delta_log" / "_staged_commits").mkdir(parents=True)
    part(place / PART)
    (place / f".{PART}.crc").write_bytes(b"crc")


def written(rows):
    return lambda file: pq.write_table(pa.table({"id": pa.array(rows, pa.int64())}), file)


@pytest.mark.parametrize("part", [written([]), lambda file: file.write_bytes(b"PAR1"), lambda file: file.touch()])
def test_files_of_a_creation_without_rows_are_no_obstacle(lake, part):
    """The file that it wrote has no row; or nothing yet."""
    place = lake / "view"
    left_by_a_creation(place, part)
    assert view_identity(str(place)) is None
    remove_uncommitted_files(str(place))
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("part", [written([1]), lambda file: file.write_bytes(b"PAR1 and more")])
def test_data_beside_a_log_without_a_commit_is_left_alone(lake, part):
    """I6: a failed conversion of a folder of files to Delta leaves such a log."""
    place = lake / "view"
    left_by_a_creation(place, part)
    with pytest.raises(MaterializedViewError, match="holds files, but no (readable )?Delta table"):
        view_identity(str(place))
    remove_uncommitted_files(str(place))
    assert (place / PART).exists()


def test_data_without_a_log_is_left_alone(lake):
    (lake / "view").mkdir()
    written([])(lake / "view" / PART)
    with pytest.raises(MaterializedViewError, match="holds files, but no (readable )?Delta table"):
        view_identity(str(lake / "view"))


def test_a_log_with_a_commit_is_not_removed(lake):
    make(lake / "view", **{JOB_PROPERTY: "j", INCARNATION_PROPERTY: "i"})
    remove_uncommitted_files(str(lake / "view"))
    assert view_identity(str(lake / "view")) == ViewIdentity("j", "i")


def test_a_table_that_another_writer_creates_meanwhile_is_noticed(lake, monkeypatch):
    place = str(lake / "view")
    make(place, **{JOB_PROPERTY: "j", INCARNATION_PROPERTY: "i"})
    looks = []

    def not_yet(*arguments, **options):
        looks.append(arguments)
        if len(looks) == 1:
            raise TableNotFoundError("not yet")
        return DeltaTable(*arguments, **options)

    monkeypatch.setattr("airflow_backfill_provider.lake.tables.table_properties.DeltaTable", not_yet)
    assert view_identity(place) == ViewIdentity("j", "i")


def test_a_path_below_a_file_is_refused(lake):
    (lake / "notes.txt").write_text("x")
    with pytest.raises(MaterializedViewError, match=r"lies below .*notes\.txt, which is a file; choose another folder"):
        view_identity(str(lake / "notes.txt" / "views" / "orders"))
    assert view_identity(str(lake / "views" / "orders")) is None
