"""Random histories of writes, barriers, pauses, throttles and crashes hold I1 to I4 on real Spark and Delta."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, _parse_datatype_string

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.scan.progress import Completed, InProgress
from airflow_backfill_provider.jobs import mutations
from tests import strategies as given_values
from tests.dying import died
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

EXAMPLES = 2
Table = dict[given_values.Key, given_values.Row]


class History:
    """A scenario played on a lakehouse, beside the same tables as plain dictionaries, by version."""

    def __init__(
        self, lakehouse: Lakehouse, scenario: given_values.Scenario, strategy: str, visibility: Visibility
    ) -> None:
        self.lakehouse = lakehouse
        self.visibility = visibility
        self.columns = scenario.columns
        self.table: Table = {}
        self.versions: list[Table] = []
        self.vnodes: dict[int | None, int] = {}
        columns = ", ".join(f"{c.name} {_sql_type(c.type)}" for c in self.columns)
        lakehouse.make_upstream(f"{columns}, status STRING, amount INT")
        self._remember()
        if scenario.initial:
            self.write(given_values.Write(tuple(given_values.Insert(row) for row in scenario.initial)))
        names = ", ".join(c.name for c in self.columns)
        lakehouse.create(
            upstream={
                "path": lakehouse.upstream_path,
                "key": [{"column": c.name, "descending": c.descending} for c in self.columns],
                # Rows may move between vnodes, unless their changes wait.
                "distribution_key": ["amount"] if visibility is Visibility.EVERY_EPOCH else [],
            },
            query=f"SELECT {names}, amount * 2 AS doubled FROM upstream WHERE status = 'paid'",
            strategy=strategy,
            visibility=visibility,
            vnode_count=3,
        )

    def write(self, write: given_values.Write) -> None:
        """Commit one version of the upstream, all operations at once."""
        if not write.operations:
            return
        lines = []
        for operation in write.operations:
            old = None if isinstance(operation, given_values.Insert) else operation.key
            new = None if isinstance(operation, given_values.Delete) else operation.row
            kind = type(operation).__name__.lower()
            empty = (None,) * len(self.columns)
            lines.append((kind, *(old or empty), *(new.key if new else empty), new and new.status, new and new.amount))
        types = [_parse_datatype_string(_sql_type(c.type)) for c in self.columns]
        schema = StructType(
            [
                StructField("kind", StringType()),
                *(StructField(f"old_{c.name}", kind) for c, kind in zip(self.columns, types, strict=True)),
                *(StructField(f"new_{c.name}", kind) for c, kind in zip(self.columns, types, strict=True)),
                StructField("status", StringType()),
                StructField("amount", IntegerType()),
            ]
        )
        source = f"operations_{uuid.uuid4().hex}"
        self.lakehouse.spark.createDataFrame(lines, schema).createOrReplaceTempView(source)
        on = " AND ".join(f"t.{c.name} <=> o.old_{c.name}" for c in self.columns)
        keys = ", ".join(f"{c.name} = o.new_{c.name}" for c in self.columns)
        names, values = (", ".join(f"{prefix}{c.name}" for c in self.columns) for prefix in ("", "o.new_"))
        self.lakehouse.sql(
            f"""MERGE INTO {{upstream}} t USING {source} o ON o.kind <> 'insert' AND {on}
                WHEN MATCHED AND o.kind = 'delete' THEN DELETE
                WHEN MATCHED THEN UPDATE SET {keys}, status = o.status, amount = o.amount
                WHEN NOT MATCHED THEN INSERT ({names}, status, amount) VALUES ({values}, o.status, o.amount)"""
        )
        self.table = write.applied_to(self.table)
        self._remember()

    def rescale(self, parallelism: int) -> None:
        """Change the parallelism, if each vnode has a position."""
        store = self.lakehouse.backfill.store
        if store.settings().strategy == "arrangement":
            mutations.rescale_job(parallelism, store=store, requested_by="tester")

    def barrier(self, barrier: given_values.Barrier, *, dies_at: str | None = None) -> None:
        """Run one task run with the barrier's settings."""
        store = self.lakehouse.backfill.store
        (mutations.pause_job if barrier.paused else mutations.resume_job)(store=store, requested_by="tester")
        mutations.throttle_job(barrier.rate_limit, store=store, requested_by="tester")
        before, rows_before = store.state(), len(store.commits())

        if died(dies_at, self.lakehouse.epoch):
            assert dies_at is not None
        before.require_successor(store.state(), store.settings().key_order)
        if len(store.commits()) > rows_before:
            self.assert_truth()

    def assert_truth(self) -> None:
        """Hold I1, computed from the dictionaries alone."""
        store = self.lakehouse.backfill.store
        commit = store.commits()[-1]
        barrier = next(b for b in store.barriers() if b.epoch == commit.epoch)
        order, progress = store.settings().key_order, store.state().vnodes
        if self.visibility is Visibility.ON_FINISH and not commit.completed:
            # Each row is as of another version: the engine's own comparison knows which.
            self.lakehouse.assert_truth()
            return

        def is_read(row: given_values.Row) -> bool:
            match progress[self._vnode(row.amount)]:
                case Completed():
                    return True
                case InProgress(position=position):
                    return order.compare(row.key, position) <= 0
                case _:
                    return False

        expected = Counter(
            (*row.key, None if row.amount is None else row.amount * 2)
            for row in self.versions[barrier.upstream.to_offset.number].values()
            if row.status == "paid" and is_read(row)
        )
        assert Counter(self._plain(row) for row in self.lakehouse.view().collect()) == expected

    def _vnode(self, amount: int | None) -> int:
        """Ask Spark itself; the vnode comes from the amount, which is no part of the key."""
        if amount not in self.vnodes:
            (row,) = self.lakehouse.spark.sql(
                f"SELECT pmod(hash(CAST({'NULL' if amount is None else amount} AS INT)), 3)"
            ).collect()
            self.vnodes[amount] = row[0]
        return self.vnodes[amount]

    def _plain(self, row: SparkRow) -> tuple[object, ...]:
        values: list[object] = []
        for column in self.columns:
            value = row[column.name]
            if isinstance(value, bytearray):
                value = bytes(value)
            elif isinstance(value, dt.datetime) and column.type == "timestamp":
                value = value.astimezone(dt.UTC)
            values.append(value)
        return (*values, row["doubled"])

    def _remember(self) -> None:
        newest = self.lakehouse.define().upstream.latest().number if self.lakehouse.job is None else None
        newest = self.lakehouse.backfill.upstream.latest().number if newest is None else newest
        while len(self.versions) <= newest:
            self.versions.append(dict(self.table))


def _sql_type(delta_type: str) -> str:
    names = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
    return names.get(delta_type, delta_type)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
@pytest.mark.parametrize("visibility", [Visibility.ON_FINISH, Visibility.EVERY_EPOCH])
@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
@pytest.mark.exhaustive
def test_random_history(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    strategy: str,
    visibility: Visibility,
    data: st.DataObject,
) -> None:
    """I1 after every commit, I3 between them, I4 in that the backfill ends once it is let go."""
    scenario = data.draw(given_values.scenarios(max_keys=6, max_events=7))
    folder: Path = tmp_path_factory.mktemp("history")
    history = History(Lakehouse(spark, folder), scenario, strategy, visibility)
    for event in scenario.events:
        match event:
            case given_values.Write():
                history.write(event)
            case given_values.Barrier():
                history.rescale(data.draw(st.integers(1, 3)))
                history.barrier(event)
            case given_values.Crash():
                history.barrier(event.barrier, dies_at=event.point)
    for _ in range(3):
        history.barrier(given_values.Barrier(rate_limit=4))
    history.barrier(given_values.Barrier())
    store = history.lakehouse.backfill.store
    assert store.state().completed
    assert protocol.finish_job(store=store, requested_by="tester").finished_epoch is not None
    history.assert_truth()
