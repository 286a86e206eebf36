"""
Runs the worked example of ``concepts.md`` on real Spark and Delta, and prints its tables.

``python -m docs.worked_example --write`` puts them into the page, ``--check`` compares them with it. Needs what
``make install`` installs; takes about a minute.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_backfill_provider import creation, mutations, protocol
from airflow_backfill_provider.backfill import Backfill
from airflow_backfill_provider.core.barrier import Barrier, EpochCommit, Requester
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.lake.delta_log import DeltaLog
from docs.generated import main, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[int, int, str]

_ORDERS = re.compile(r"\b(TABLE|INTO|UPDATE|FROM|OPTIMIZE) orders\b")

PAGE = Path(__file__).with_name("concepts.md")
QUERY = "SELECT order_id, amount * 100 AS cents FROM upstream WHERE status = 'paid'"
FIRST_ROWS: Sequence[Row] = (
    (10, 5, "paid"),
    (20, 7, "draft"),
    (30, 4, "paid"),
    (40, 9, "paid"),
    (50, 3, "paid"),
    (60, 8, "draft"),
    (70, 6, "paid"),
    (80, 2, "paid"),
)

STATEMENTS: dict[int, Sequence[str]] = {
    2: (
        "UPDATE orders SET amount = 6 WHERE order_id = 10",
        "UPDATE orders SET amount = 7 WHERE order_id = 10",
        "INSERT INTO orders VALUES (65, 1, 'paid')",
        "UPDATE orders SET order_id = 45 WHERE order_id = 30",
    ),
    3: (
        "UPDATE orders SET status = 'draft' WHERE order_id = 40",
        "UPDATE orders SET status = 'paid' WHERE order_id = 20",
        "DELETE FROM orders WHERE order_id = 60",
    ),
    4: (
        "UPDATE orders SET order_id = 5 WHERE order_id = 70",
        "DELETE FROM orders WHERE order_id = 50",
    ),
    5: (
        "INSERT INTO orders VALUES (90, 4, 'paid')",
        "UPDATE orders SET amount = 3 WHERE order_id = 80",
    ),
}


@dataclass(frozen=True)
class Change:
    """A row of the change data feed."""

    version: int
    kind: str
    row: Row

    @property
    def key(self) -> int:
        """The changed row's key."""
        return self.row[0]

    @property
    def upserts(self) -> bool:
        """Whether the key has a row afterwards."""
        return self.kind in {"insert", "update_postimage"}


class Example:
    """An upstream, a job over it, and what each epoch did."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        from airflow_backfill_provider.engine import SparkEngine

        self.spark = spark
        self.orders = str(folder / "orders")
        self.engine = SparkEngine(spark)
        self.blocks: dict[str, str] = {}
        self.sql(
            "CREATE TABLE orders (order_id BIGINT, amount INT, status STRING) USING delta "
            "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        )
        self.sql(f"INSERT INTO orders SELECT /*+ COALESCE(1) */ * FROM VALUES {', '.join(map(str, FIRST_ROWS))}")
        job = BackfillJob(
            name="paid_orders",
            upstream={"path": self.orders, "key": ["order_id"]},
            materialized_view=str(folder / "paid_orders"),
            query=QUERY,
            vnode_count=2,
            rate_limit=3,
        )
        self.backfill = Backfill(job)
        creation.create_job(
            job,
            store=self.backfill.store,
            upstream=self.backfill.upstream,
            engine=lambda: self.engine,
            requested_by="you",
        )

    def run(self) -> dict[str, str]:
        """Run the epochs and return the blocks of the page."""
        store = self.backfill.store
        self.blocks["upstream"] = table(("order_id", "amount", "status"), self.rows_at(1))
        self.epoch(1)
        self.epoch(2)
        self.blocks["orders of operations"] = self.orders_of_operations()
        mutations.pause_job(store=store, requested_by="you")
        self.epoch(3)
        mutations.resume_job(store=store, requested_by="you")
        self.epoch(4)
        protocol.finish_job(store=store, requested_by="you")
        self.epoch(5)
        self.sql("OPTIMIZE orders")
        injection = protocol.inject_barrier(
            store=store, upstream=self.backfill.upstream, requester=Requester(user="you")
        )
        if injection.barrier is not None:
            raise AssertionError("a compaction is no change")
        self.blocks["nothing to do"] = f"> {injection.reason}\n"
        self.blocks["settings"] = table(
            ("sequence", "change", "paused", "rate_limit", "finished_epoch"),
            ((s.sequence, s.change.value, s.paused, s.rate_limit, s.finished_epoch) for s in store.settings_history()),
        )
        self.blocks["barrier log"] = self.barrier_log()
        self.blocks["view log"] = self.view_log()
        return self.blocks

    def epoch(self, number: int) -> None:
        """Let the upstream change, run one epoch, hold I1, and make the epoch's tables."""
        for statement in STATEMENTS.get(number, ()):
            self.sql(statement)
        store = self.backfill.store
        barrier = protocol.inject_barrier(
            store=store, upstream=self.backfill.upstream, requester=Requester(user="you")
        ).barrier
        if barrier is None or barrier.epoch != number:
            raise AssertionError(f"epoch {number} was to be pinned, not {barrier}")
        commit = protocol.run_barrier(barrier, store=store, engine=self.engine)
        outcome = self.engine.verify(store.settings(), barrier)
        if not outcome.equal:
            raise AssertionError(f"I1 does not hold after epoch {number}: {outcome}")
        name = f"epoch {number}"
        if number in STATEMENTS:
            lines = (f"{sql};  -- version {_version_of(number, i)}\n" for i, sql in enumerate(STATEMENTS[number]))
            self.blocks[f"{name} statements"] = f"```sql\n{''.join(lines)}```\n"
        self.blocks[f"{name} barrier"] = self.barrier(barrier)
        if barrier.applies_changes:
            self.blocks[f"{name} changes"] = self.changes(barrier, commit)
        self.blocks[f"{name} result"] = self.result()

    # ------------------------------------------------------------------------------------------------- tables

    def barrier(self, barrier: Barrier) -> str:
        """Return what the barrier pinned."""
        chunk = "none: paused" if barrier.paused else "none: every vnode is Completed"
        if barrier.chunk is not None:
            after = "the first row" if barrier.chunk.after is None else f"behind {barrier.chunk.after[0]}"
            up_to = "the last row" if barrier.chunk.up_to is None else f"{barrier.chunk.up_to[0]}"
            chunk = f"{after} to {up_to}, as of version {barrier.upstream.to_version}"
        changes = {
            "none": "none: nothing was read yet",
            "up_to": f"keys at or before {barrier.changes.position[0] if barrier.changes.position else ''}",
            "all": "all",
        }[barrier.changes.let_through]
        window = barrier.upstream
        carried = ", ".join(pinned.mutation.value for pinned in barrier.mutations) or "none"
        return table(
            ("epoch", "window", "snapshot chunk", "changes let through", "mutation"),
            [(barrier.epoch, f"({window.from_version}, {window.to_version}]", chunk, changes, carried)],
        )

    def changes(self, barrier: Barrier, commit: EpochCommit) -> str:
        """Return the window's change feed, and what becomes of each change."""
        changes = self.feed(barrier.upstream.from_version, barrier.upstream.to_version)
        position = int(barrier.changes.position[0] or 0) if barrier.changes.position else None
        applied = [change for change in changes if position is None or change.key <= position]
        last = {change.key: change for change in sorted(applied, key=lambda change: (change.version, change.upserts))}
        if len(last) != commit.upstream_output_row_count:
            raise AssertionError(f"{len(last)} net changes were expected, {commit} tells of others")
        rows = []
        for change in changes:
            if change not in applied:
                fate = _why_dropped(change, barrier)
            elif last[change.key] is not change:
                fate = f"netted: a later image of {change.key} wins"
            elif not change.upserts:
                fate = f"applied: {change.key} is deleted"
            elif change.row[2] == "paid":
                fate = f"applied: {change.key} is written"
            else:
                fate = f"applied: {change.key} fails the filter, so it is deleted"
            rows.append((change.version, change.kind, *change.row, fate))
        return table(("version", "change", "order_id", "amount", "status", "what becomes of it"), rows)

    def result(self) -> str:
        """Return the view and the state as they are now."""
        view = self.read(self.backfill.job.materialized_view)
        columns = ("vnode", "order_id", "backfill_finished", "row_count", "epoch")
        state = self.read(f"{self.backfill.job.state}/vnode_state").select(*columns)
        return (
            "The view afterwards:\n\n"
            + table(("order_id", "cents"), sorted(map(tuple, view.collect())))
            + "\nThe state table afterwards:\n\n"
            + table(columns, sorted(map(tuple, state.collect())))
        )

    def orders_of_operations(self) -> str:
        """Play epoch 2 in the four orders of operations that there are, in plain Python."""
        barrier = self.backfill.store.barriers(since_epoch=2)[0]
        window, old = barrier.upstream, 30
        start, end = self.rows_at(window.from_version), self.rows_at(window.to_version)
        changes = self.feed(window.from_version, window.to_version)
        lines = []
        for chunk_at, snapshot in ((window.to_version, end), (window.from_version, start)):
            chunk = [row for row in snapshot if row[0] > old][:3]
            new = chunk[-1][0]
            for name, position in (("old", old), ("new", new)):
                view = Counter(row for row in start if row[0] <= old)
                inserts_first = chunk_at == window.from_version
                if inserts_first:
                    view.update(chunk)
                _apply(view, [change for change in changes if change.key <= position])
                if not inserts_first:
                    view.update(chunk)
                truth = Counter(row for row in end if row[0] <= new)
                wrong = [f"{row[0]} is lost" for row in truth - view] + [
                    f"{row[0]} is there twice" if row in truth else f"{row} is stale" for row in view - truth
                ]
                lines.append(
                    (
                        {(True, "new"): "classical", (False, "old"): "ours"}.get((inserts_first, name), "mixed"),
                        f"as of version {chunk_at}: {', '.join(str(row[0]) for row in chunk)}",
                        f"at or before {position} (the {name} position)",
                        ", ".join(str(row[0]) for row in sorted(view.elements()) if row[2] == "paid"),
                        "; ".join(wrong) or "right",
                    )
                )
        return table(("order", "chunk", "changes", "the view's keys", "outcome"), lines)

    def barrier_log(self) -> str:
        """Return the barrier log's rows."""
        barriers, commits = self.backfill.store.log()
        lines: list[tuple[object, ...]] = []
        for barrier in barriers:
            window = (barrier.upstream.from_version, barrier.upstream.to_version)
            mutations = ", ".join(pinned.mutation.value for pinned in barrier.mutations)
            lines.append((barrier.epoch, "injected", *window, mutations, "", ""))
            commit = next(commit for commit in commits if commit.epoch == barrier.epoch)
            counts = (commit.snapshot_read_row_count, commit.upstream_output_row_count)
            lines.append((barrier.epoch, "committed", *window, "", *counts))
        return table(
            (
                "epoch",
                "event",
                "from_version",
                "to_version",
                "mutations",
                "snapshot_read_row_count",
                "upstream_output_row_count",
            ),
            lines,
        )

    def view_log(self) -> str:
        """Return the view's commits with their transactions."""
        log = DeltaLog(self.backfill.job.materialized_view)
        lines = []
        for version in log.versions():
            commit = log.commit(version)
            if commit is None:
                raise AssertionError(f"version {version} is gone")
            transaction = next(iter(commit.transactions.items()), ("", ""))
            lines.append((version, commit.operation, transaction[0].rpartition("/")[2], transaction[1]))
        return table(("version", "operation", "part", "epoch (the transaction's version)"), lines)

    # ------------------------------------------------------------------------------------------------- reading

    def sql(self, statement: str) -> DataFrame:
        """Run a statement on the upstream, which it calls ``orders``."""
        return self.spark.sql(_ORDERS.sub(f"\\1 delta.`{self.orders}`", statement))

    def read(self, path: str, **options: int | str) -> DataFrame:
        """Read a Delta table."""
        return self.spark.read.format("delta").options(**options).load(path)

    def rows_at(self, version: int) -> list[Row]:
        """Return the upstream's rows as of a version, in key order."""
        return sorted(_row(row) for row in self.read(self.orders, versionAsOf=version).collect())

    def feed(self, from_version: int, to_version: int) -> list[Change]:
        """Return the change data feed of a window ``(from_version, to_version]``."""
        frame = self.read(
            self.orders, readChangeFeed="true", startingVersion=from_version + 1, endingVersion=to_version
        )
        changes = [Change(row["_commit_version"], row["_change_type"], _row(row)) for row in frame.collect()]
        return sorted(changes, key=lambda change: (change.version, change.kind != "update_preimage", change.key))


def _version_of(epoch: int, statement: int) -> int:
    """Return the version that a statement before an epoch makes; 0 creates the table, 1 fills it."""
    return 2 + statement + sum(len(STATEMENTS[earlier]) for earlier in STATEMENTS if earlier < epoch)


def _row(row: Any) -> Row:
    return row["order_id"], row["amount"], row["status"]


def _why_dropped(change: Change, barrier: Barrier) -> str:
    position = barrier.changes.position[0] if barrier.changes.position else ""
    why = f"dropped: {change.key} is beyond {position}"
    chunk = barrier.chunk
    if chunk is None or not change.upserts:
        return why
    inside = chunk.up_to is None or change.key <= int(chunk.up_to[0] or 0)
    return f"{why}; {'this' if inside else 'a later'} chunk reads it"


def _apply(view: Counter[Row], changes: Sequence[Change]) -> None:
    """Apply changes net per key: the latest version wins, and in one version an upsert beats a removal."""
    net = {change.key: change for change in sorted(changes, key=lambda change: (change.version, change.upserts))}
    for row in list(view):
        if row[0] in net:
            del view[row]
    view.update(change.row for change in net.values() if change.upserts)


def make() -> dict[str, str]:
    """Start Spark, run the example in a temporary folder, and return the page's blocks."""
    from airflow_backfill_provider.engine.session import start_session

    with tempfile.TemporaryDirectory() as folder:
        spark = start_session(
            "worked example",
            master="local[1]",
            conf={"spark.sql.shuffle.partitions": "1", "spark.sql.warehouse.dir": f"{folder}/warehouse"},
        )
        try:
            return Example(spark, Path(folder)).run()
        finally:
            spark.stop()


if __name__ == "__main__":
    sys.exit(main(PAGE, make()))
