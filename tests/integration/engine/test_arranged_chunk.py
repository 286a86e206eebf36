"""What a chunk of an arrangement reads and counts, range by range, against the history that its table was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.sources.delta.reader import DeltaReader
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.spark_errors import DUPLICATE_KEY
from airflow_backfill_provider.strategies.arrangement.table import ArrangementTable
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan
from tests.builders import barrier_of

pytestmark = pytest.mark.spark

BASE = {0: (None, 1, 2, 3), 1: (10, 11, 12, 13), 2: (20, 21, 22)}
"""Keys by vnode; vnode 3 has none."""

UPDATED, REMOVED, INSERTED = (True, False), (False, False), (True, True)
"""Whether there is a row afterwards, and whether there was none before."""

CHANGES = [
    (1, 0, 2, UPDATED),
    (1, 0, None, UPDATED),
    (1, 1, 11, REMOVED),
    (1, 1, 15, INSERTED),
    (1, 2, 23, INSERTED),
    (2, 0, 2, UPDATED),
    (2, 1, 11, INSERTED),
    (2, 1, 15, REMOVED),
    (2, 2, 20, REMOVED),
    (2, 2, 23, UPDATED),
    (3, 0, 1, REMOVED),
    (3, 2, 23, REMOVED),
    (3, 3, 30, INSERTED),
    # The first of these is in the base, the second one was inserted in epoch 3.
    (4, 2, 22, INSERTED),
    (5, 3, 30, INSERTED),
]
"""Epoch, vnode, key, and what happened to it."""

INSIDE_AND_AROUND = [KeyRange((0, None), (0, 1)), KeyRange((0, 2), (1, 11)), KeyRange((1, 12), (3,))]
"""In one vnode; from inside of one into the next one; and from inside of one to the end of another."""

WITH_A_WHOLE_VNODE_BETWEEN = [KeyRange(None, (0, None)), KeyRange((0, 2), (2, 21))]

KEY = KeyOrder((KeyField(name="id", type="long"),))
SCAN = VnodeScan(KEY, 4, frozenset(range(4)))


@pytest.fixture
def arrangement(spark: SparkSession, lake: Path) -> ArrangementTable:
    """An arrangement with that history; a row's name is the epoch that wrote it."""
    entries = [(vnode, key, 0, True, False) for vnode, keys in BASE.items() for key in keys]
    entries += [(vnode, key, epoch, *flags) for epoch, vnode, key, flags in CHANGES]
    vnodes, keys, epochs, upserts, appeared = zip(*entries, strict=True)
    rows = {
        "__vnode": pa.array(vnodes, pa.int32()),
        "id": pa.array(keys, pa.int64()),
        "__epoch": pa.array(epochs, pa.int64()),
        "__is_upsert": pa.array(upserts),
        "__appeared": pa.array(appeared),
        "name": pa.array(map(str, epochs)),
    }
    path = str(lake / "arrangement")
    write_deltalake(path, pa.table(rows))
    source = JobRows(
        location="/lake/orders",
        reader=DeltaReader(spark, "/lake/orders"),
        types={"id": "long", "name": "string"},
        key=KEY,
        scan=SCAN.order,
        distribution_key=["id"],
        vnode_count=4,
        vnodes=SCAN.vnodes,
        keys=EVERYTHING,
    )
    identity = ViewIdentity("paid_orders", "a1")
    return ArrangementTable(spark, path, source, SCAN, base_epoch=0, identity=identity)


def expected(epoch: int, ranges: Sequence[KeyRange]) -> set[tuple[int, int | None, str]]:
    """Return what the ranges hold as of an epoch: vnode, key and name."""
    found = {(vnode, key): "0" for vnode, keys in BASE.items() for key in keys}
    for changed_in, vnode, key, (is_there, _) in CHANGES:
        if changed_in <= epoch:
            found.pop((vnode, key), None)
            if is_there:
                found[vnode, key] = str(changed_in)
    return {(*at, name) for at, name in found.items() if any(r.contains(at, SCAN.order) for r in ranges)}


def test_a_chunk_has_and_counts_the_rows_of_its_ranges_as_of_its_epoch(arrangement: ArrangementTable) -> None:
    """I2: the arrangement also has changes of later epochs, which this one must not read."""
    with arrangement.chunk(barrier_of(2), INSIDE_AND_AROUND) as chunk:
        counted, rows = chunk.count(), [tuple(row) for row in chunk.rows().collect()]
    wanted = expected(2, INSIDE_AND_AROUND)
    assert (len(rows), set(rows)) == (len(wanted), wanted)
    assert counted == Counter(vnode for vnode, _, _ in wanted)
    for epoch, ranges in ((2, WITH_A_WHOLE_VNODE_BETWEEN), (3, [EVERYTHING])):
        with arrangement.chunk(barrier_of(epoch), ranges) as chunk:
            assert chunk.count() == Counter(vnode for vnode, _, _ in expected(epoch, ranges))


def test_an_insert_of_an_existing_key_is_refused(arrangement: ArrangementTable) -> None:
    """I6: of a key in the base, and of one that a change inserted."""
    with arrangement.chunk(barrier_of(4), [KeyRange((1,), (2,))]) as chunk:
        assert chunk.count() == {2: 3}, "what the base has is looked at where its rows are read"
        with pytest.raises(PySparkException, match=DUPLICATE_KEY):
            chunk.rows().collect()
    with (
        arrangement.chunk(barrier_of(5), [KeyRange((2,), None)]) as chunk,
        pytest.raises(PySparkException, match=DUPLICATE_KEY),
    ):
        chunk.count()
