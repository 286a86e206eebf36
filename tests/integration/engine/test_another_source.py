"""
A source that only this file defines and registers goes through a whole backfill.

Its upstream is a folder of Parquet files, each a copy of the whole table: no Delta log, no change data feed, and
offsets that are no numbers. So no code outside of the sources' folder may depend on the kind.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import field_validator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.core.location import canonical_location
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.lake.files.key_index import keys_within, nth_key
from airflow_backfill_provider.sources import KINDS
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.sources.kind import SourceKind
from airflow_backfill_provider.sources.reader import CHANGE_OFFSET, CHANGE_TYPE, SourceReader
from airflow_backfill_provider.sources.watch import SourceWatch
from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TYPES = {pa.int64(): "long", pa.string(): "string"}


class SnapshotsUpstream(UpstreamDefinition):
    """A folder of whole copies of a table, named in the order in which they were made."""

    kind: ClassVar[str] = "snapshots"

    folder: str

    _canonical_folder = field_validator("folder")(canonical_location)

    @property
    def location(self) -> str:
        return self.folder

    @property
    def folders(self) -> Mapping[str, str]:
        return {"upstream.snapshots.folder": self.folder}


class Snapshots(SourceKind[SnapshotsUpstream, "SnapshotsSource"]):
    """Folders of whole copies."""

    name: ClassVar[str] = SnapshotsUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = SnapshotsUpstream

    def open(self, upstream: SnapshotsUpstream, storage_options: Mapping[str, str] | None = None) -> SnapshotsSource:
        return SnapshotsSource(upstream.location, [column.column for column in upstream.key])

    def reader(self, spark: SparkSession, source: SnapshotsSource) -> SourceReader:
        return SnapshotsReader(spark, source)


class SnapshotsSource(Source, SourceWatch):
    """One folder. An offset is the number of a copy and its name."""

    def __init__(self, folder: str, key: Sequence[str]) -> None:
        self._folder = Path(folder)
        self.key = key

    @property
    def location(self) -> str:
        return str(self._folder)

    def offsets(self) -> list[Offset]:
        names = sorted(file.stem for file in self._folder.glob("*.parquet"))
        return [Offset((number, name)) for number, name in enumerate(names)]

    def file(self, offset: Offset) -> Path:
        assert isinstance(offset.root, tuple)
        return self._folder / f"{offset.root[1]}.parquet"

    def latest(self) -> Offset:
        return self.offsets()[-1]

    def look(self) -> tuple[Offset | None, Hashable]:
        return self.latest(), None

    def seen_at(self, offset: Offset) -> dt.datetime:
        return self.watermark(offset)

    def watch(self) -> SourceWatch:
        return self

    def offset_at(self, instant: dt.datetime) -> Offset | None:
        return self.latest()

    def at(self, offset: Offset | None = None) -> UpstreamDescription:
        found = offset or self.latest()
        schema = pq.read_schema(self.file(found))
        return UpstreamDescription(
            location=self.location,
            offset=found,
            table_id="the folder",
            types={field.name: TYPES[field.type] for field in schema},
        )

    def watermark(self, offset: Offset) -> dt.datetime:
        return NOW + dt.timedelta(minutes=offset.distance_from(Offset((0, ""))))

    def has_changes(self, after: Offset, up_to: Offset) -> bool:
        return up_to > after

    def changes_kept_for(self) -> dt.timedelta | None:
        return dt.timedelta(days=9)

    def change_feed(self, read_up_to: Offset | None, *arguments: Any, **known: Any) -> ChangeFeed:
        return ChangeFeed(latest=self.latest(), kept_for=self.changes_kept_for())

    def row_count(self, offset: Offset) -> int:
        return pq.read_metadata(self.file(offset)).num_rows

    def blocks(self, offset: Offset, order: KeyOrder) -> list[FileStatistics]:
        return [FileStatistics(path=str(self.file(offset)), row_count=self.row_count(offset))]

    def blocks_of_job(self, offset: Offset, settings: JobSettings) -> tuple[list[FileStatistics], KeyIndex]:
        return self.blocks(offset, settings.key_order), FileKeys(settings.key_order)


class FileKeys:
    """Exact keys of a copy."""

    def __init__(self, order: KeyOrder) -> None:
        self._order = order

    def _keys(self, file: FileStatistics) -> pa.Table:
        return pq.read_table(file.path, columns=list(self._order.names))

    def count(self, file: FileStatistics, within: KeyRange) -> int:
        return int(keys_within(self._keys(file), self._order, within).num_rows)

    def nth(self, files: Sequence[FileStatistics], within: KeyRange, n: int) -> Position | None:
        return nth_key(map(self._keys, files), self._order, within, n)


class SnapshotsReader(SourceReader):
    """Reads copies, and finds changes by comparing one with the next."""

    def __init__(self, spark: SparkSession, source: SnapshotsSource) -> None:
        self._spark = spark
        self._source = source
        self._key = list(source.key)

    def rows(self, offset: Offset) -> DataFrame:
        return self._spark.read.parquet(str(self._source.file(offset)))

    def empty(self) -> DataFrame:
        return self.rows(self._source.latest()).limit(0)

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        offsets = self._source.offsets()
        window = [offset for offset in offsets if after < offset <= up_to]
        return reduce(DataFrame.unionAll, [self._step(offsets[offsets.index(new) - 1], new) for new in window])

    def _step(self, old: Offset, new: Offset) -> DataFrame:
        before, now = self.rows(old), self.rows(new)
        gone, came = before.exceptAll(now), now.exceptAll(before)
        kinds = [
            (gone.join(came, self._key, "left_anti"), "delete"),
            (gone.join(came, self._key, "left_semi"), "update_preimage"),
            (came.join(gone, self._key, "left_semi"), "update_postimage"),
            (came.join(gone, self._key, "left_anti"), "insert"),
        ]
        assert isinstance(new.root, tuple)
        offset = F.struct(*map(F.lit, new.root))
        changed = [
            rows.select(*now.columns).withColumns({CHANGE_TYPE: F.lit(kind), CHANGE_OFFSET: offset})
            for rows, kind in kinds
        ]
        return reduce(DataFrame.unionAll, changed)


class DiedError(Exception):
    """An attempt died."""


class Copies:
    """Makes the copies of a table of numbers and names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[int, str] = {}
        folder.mkdir()

    def make(self, name: str, changed: Mapping[int, str | None]) -> None:
        self.rows = {
            **{number: text for number, text in self.rows.items() if number not in changed},
            **{number: text for number, text in changed.items() if text is not None},
        }
        columns = {"id": pa.array(self.rows.keys(), pa.int64()), "name": pa.array(self.rows.values(), pa.string())}
        pq.write_table(pa.table(columns), self.folder / f"{name}.parquet")


@pytest.fixture
def copies(lakehouse: Lakehouse) -> Iterator[Copies]:
    KINDS.register(Snapshots())
    try:
        yield Copies(lakehouse.folder / "copies")
    finally:
        crash_points.install(None)
        KINDS.forget(Snapshots.name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", [exhaustive("no_shuffle"), "arrangement"])
def test_a_source_from_outside_survives_crashes_and_ends_with_the_query_of_its_upstream(
    lakehouse: Lakehouse, copies: Copies, strategy: str
) -> None:
    """I1 and I2, under either strategy, where the view is verified in the middle and at the end."""
    copies.make("a", {number: f"n{number}" for number in range(30)})
    lakehouse.create(
        upstream={"snapshots": {"folder": str(copies.folder), "key": ["id"]}},
        query="SELECT id, name FROM upstream WHERE id <> 7",
        strategy=strategy,
        rate_limit=12,
    )
    lakehouse.epoch()
    lakehouse.assert_truth()
    copies.make("b", {1: "changed", 2: None, 28: "changed", 29: None, -5: "first", 99: "last"})
    copies.make("c", {1: "changed again", 2: "back", -5: None})
    for point in (CrashPoint.AFTER_PIN, CrashPoint.AFTER_CHANGES_COMMIT, CrashPoint.AFTER_STATE_COMMIT):

        def die(reached: CrashPoint, point: CrashPoint = point) -> None:
            if reached is point:
                raise DiedError

        crash_points.install(die)
        with pytest.raises(DiedError):
            lakehouse.epoch()
    crash_points.install(None)
    lakehouse.finish()
    lakehouse.assert_truth()
    assert {row["id"]: row["name"] for row in lakehouse.view().collect()} == {
        number: name for number, name in copies.rows.items() if number != 7
    }
    status = lakehouse.backfill.status()
    assert (status.finished, status.upstream_version, status.lag_versions) == (True, Offset((2, "c")), 0)
