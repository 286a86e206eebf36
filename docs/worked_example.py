"""
Run the worked examples of the concepts on real Spark and Delta, and print their tables.

``python -m docs.worked_example --write`` puts them into the pages, ``--check`` compares them with these. It takes about
two minutes. The example of ``no_shuffle`` is in this file, that of ``arrangement`` in :mod:`docs.arrangement_example`.
Those of ``cdc``, ``source``, ``snapshot`` and joins, in the other modules of this folder, need no Spark.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.jobs import creation, mutations
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification.verifier import compare_now
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.sources.delta.versions import version_of
from docs import arrangement_example, cdc_example, join_example, snapshot_example, source_example
from docs.example_upstream import Change, ExampleUpstream, Row, read, statements_block
from docs.generated import main, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = (
    *sorted((Path(__file__).parent / "concepts" / "examples").glob("*.md")),
    Path(__file__).parent / "concepts" / "order-of-operations.md",
)
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


class Example:
    """An upstream, a job on it, and the job's epochs."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        from airflow_backfill_provider.engine.spark_engine import SparkEngine

        self.spark = spark
        self.engine = SparkEngine(spark)
        self.blocks: dict[str, str] = {}
        self.orders = ExampleUpstream(
            spark, str(folder / "orders"), {"order_id": "BIGINT", "amount": "INT", "status": "STRING"}, FIRST_ROWS
        )
        job = BackfillJob(
            name="paid_orders",
            upstream={"path": self.orders.path, "key": ["order_id"]},
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
        self.blocks["upstream"] = table(("order_id", "amount", "status"), self.orders.rows_at(1))
        self.epoch(1)
        self.epoch(2)
        self.blocks["orders of operations"] = self.orders_of_operations()
        mutations.pause_job(store=store, requested_by="you")
        self.epoch(3)
        mutations.resume_job(store=store, requested_by="you")
        self.epoch(4)
        protocol.finish_job(store=store, requested_by="you")
        self.epoch(5)
        self.orders.sql("OPTIMIZE orders")
        injection = protocol.inject_barrier(
            store=store, upstream=self.backfill.upstream, requester=Requester(user="you")
        )
        if injection.barrier is not None:
            raise AssertionError("a compaction must not count as a change")
        self.blocks["nothing to do"] = f"> {injection.reason}\n"
        self.blocks["settings"] = table(
            ("sequence", "change", "paused", "rate_limit", "finished_epoch"),
            ((s.sequence, s.change.value, s.paused, s.rate_limit, s.finished_epoch) for s in store.settings_history()),
        )
        self.blocks["barrier log"] = self.barrier_log()
        self.blocks["view log"] = self.view_log()
        return self.blocks

    def epoch(self, number: int) -> None:
        """Change the upstream, run one epoch, check I1, and make the epoch's tables."""
        for statement in STATEMENTS.get(number, ()):
            self.orders.sql(statement)
        store = self.backfill.store
        barrier = protocol.inject_barrier(
            store=store, upstream=self.backfill.upstream, requester=Requester(user="you")
        ).barrier
        if barrier is None or barrier.epoch != number:
            raise AssertionError(f"epoch {number} should be pinned, not {barrier}")
        commit = protocol.run_epoch(barrier, store=store, engine=self.engine)
        outcome = compare_now(self.backfill, self.engine)
        if not outcome.equal:
            raise AssertionError(f"I1 does not hold after epoch {number}: {outcome}")
        name = f"epoch {number}"
        if number in STATEMENTS:
            self.blocks[f"{name} statements"] = statements_block(STATEMENTS[number], _first_version_of(number))
        self.blocks[f"{name} barrier"] = self.barrier(barrier)
        if barrier.has_window and barrier.read_before:
            self.blocks[f"{name} changes"] = self.changes(barrier, commit)
        self.blocks[f"{name} result"] = self.result()

    # ------------------------------------------------------------------------------------------------- tables

    def barrier(self, barrier: Barrier) -> str:
        """Return the content of the barrier."""
        chunk = "none: paused" if barrier.paused else "none: every vnode is Completed"
        for covered in self.chunk(barrier):
            after = "from the first row" if covered.after is None else f"after {covered.after[0]}"
            up_to = "to the last row" if covered.up_to is None else f"up to {covered.up_to[0]}"
            chunk = f"keys {after} {up_to}, as of version {version_of(barrier.upstream.to_offset)}"
        changes = "none: nothing was read yet"
        if barrier.read_before:
            position = _position(barrier)
            changes = "all" if position is None else f"keys at or before {position}"
        window = barrier.upstream
        changed = ", ".join(pinned.mutation.value for pinned in barrier.mutations) or "none"
        return table(
            ("epoch", "window", "snapshot chunk", "changes let through", "mutation"),
            [
                (
                    barrier.epoch,
                    f"({version_of(window.from_offset)}, {version_of(window.to_offset)}]",
                    chunk,
                    changes,
                    changed,
                )
            ],
        )

    def changes(self, barrier: Barrier, commit: EpochCommit) -> str:
        """Return the window's change feed, with the effect of each change."""
        changes = self.orders.feed(version_of(barrier.upstream.from_offset), version_of(barrier.upstream.to_offset))
        position = _position(barrier)
        applied = [change for change in changes if position is None or change.key <= position]
        last = {change.key: change for change in sorted(applied, key=lambda change: (change.version, change.upserts))}
        if len(last) != commit.upstream_output_row_count:
            raise AssertionError(f"{len(last)} net changes were expected, but {commit} has another number")
        rows = []
        for change in changes:
            if change not in applied:
                fate = self.why_dropped(change, barrier)
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

    def why_dropped(self, change: Change, barrier: Barrier) -> str:
        """Return why the filter holds a change back, and which chunk has its row instead."""
        why = f"dropped: {change.key} is beyond {_position(barrier)}"
        chunk = self.chunk(barrier)
        if not chunk or not change.upserts:
            return why
        order = self.backfill.settings().scan.order
        return f"{why}; {'this' if chunk[0].contains((change.key,), order) else 'a later'} chunk reads it"

    def chunk(self, barrier: Barrier) -> tuple[KeyRange, ...]:
        """Return the chunk: one range, or none."""
        return barrier.chunk(self.backfill.settings().scan.order)

    def result(self) -> str:
        """Return the current view and state."""
        view = read(self.spark, self.backfill.job.materialized_view)
        columns = ("vnode", "order_id", "backfill_finished", "row_count", "epoch")
        state = read(self.spark, f"{self.backfill.job.state}/vnode_state").select(*columns)
        return (
            "The view afterwards:\n\n"
            + table(("order_id", "cents"), sorted(map(tuple, view.collect())))
            + "\nThe state table afterwards:\n\n"
            + table(columns, sorted(map(tuple, state.collect())))
        )

    def orders_of_operations(self) -> str:
        """Simulate epoch 2 with all four orders of operations, in plain Python."""
        barrier = self.backfill.store.barriers(since_epoch=2)[0]
        window, old = barrier.upstream, 30
        start, end = (
            self.orders.rows_at(version_of(window.from_offset)),
            self.orders.rows_at(version_of(window.to_offset)),
        )
        changes = self.orders.feed(version_of(window.from_offset), version_of(window.to_offset))
        lines = []
        for chunk_at, snapshot in ((version_of(window.to_offset), end), (version_of(window.from_offset), start)):
            chunk = [row for row in snapshot if row[0] > old][:3]
            new = chunk[-1][0]
            for name, position in (("old", old), ("new", new)):
                view = Counter(row for row in start if row[0] <= old)
                inserts_first = chunk_at == version_of(window.from_offset)
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
            window = (version_of(barrier.upstream.from_offset), version_of(barrier.upstream.to_offset))
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
            part = "/".join(transaction[0].split("/")[3:])
            lines.append((version, commit.operation, part, transaction[1]))
        return table(("version", "operation", "part", "epoch (the transaction's version)"), lines)


def _first_version_of(epoch: int) -> int:
    """Return the version of the first statement before an epoch; version 0 creates the table, 1 fills it."""
    return 2 + sum(len(STATEMENTS[earlier]) for earlier in STATEMENTS if earlier < epoch)


def _position(barrier: Barrier) -> int | None:
    """Return the position before an epoch that follows a read; None if everything was read."""
    (read_before,) = barrier.read_before
    return None if read_before.up_to is None else int(read_before.up_to[0] or 0)


def _apply(view: Counter[Row], changes: Sequence[Change]) -> None:
    """Apply net changes per key: the latest version wins, and in one version an upsert wins over a removal."""
    net = {change.key: change for change in sorted(changes, key=lambda change: (change.version, change.upserts))}
    for row in list(view):
        if row[0] in net:
            del view[row]
    view.update(change.row for change in net.values() if change.upserts)


def run(spark: SparkSession, folder: Path) -> dict[str, str]:
    """Run the examples and return the pages' blocks."""
    return {
        **Example(spark, folder / "paid").run(),
        **arrangement_example.Example(spark, folder / "arranged").run(),
        **cdc_example.make(),
        **source_example.make(),
        **snapshot_example.make(),
        **join_example.make(),
    }


def make() -> dict[str, str]:
    """Start Spark, run the examples in a temporary folder, and return the pages' blocks."""
    from airflow_backfill_provider.applications.spark_session import start_session

    with tempfile.TemporaryDirectory() as folder:
        spark = start_session(
            "worked example",
            master="local[1]",
            conf={"spark.sql.shuffle.partitions": "1", "spark.sql.warehouse.dir": f"{folder}/warehouse"},
        )
        try:
            return run(spark, Path(folder))
        finally:
            spark.stop()


if __name__ == "__main__":
    sys.exit(main(PAGES, make()))
