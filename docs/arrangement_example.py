"""
The worked example of the strategy ``arrangement``, on real Spark and Delta; :mod:`docs.worked_example` prints it.

There are four vnodes. First one task run makes an epoch, then two share each epoch, then one makes it again. In epoch 3
one of the two dies after its append, and only that one is repeated, while the upstream changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.barrier import Barrier, decoded
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.jobs import creation, mutations
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification.verifier import compare_now
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.sources.delta.versions import version_of
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.location import location_of
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan
from docs.example_upstream import Change, ExampleUpstream, Row, read, statements_block
from docs.generated import table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

YOU = "you"
VNODES = 4
OWN = OwnColumns()
RATE_LIMIT = 3
QUERY = "SELECT order_id, amount * 100 AS cents FROM upstream"
COLUMNS = {"order_id": "BIGINT", "customer": "INT", "amount": "INT"}
FIRST_ROWS: Sequence[Row] = (
    (58, 3, 2),
    (18, 6, 7),
    (99, 4, 2),
    (31, 12, 5),
    (92, 6, 8),
    (45, 1, 9),
    (27, 2, 4),
    (97, 3, 7),
    (74, 13, 2),
    (43, 4, 6),
    (62, 1, 5),
    (55, 9, 3),
    (88, 2, 1),
)

STATEMENTS: Mapping[int, Sequence[str]] = {
    1: ("UPDATE orders SET amount = 6 WHERE order_id = 31",),
    2: (
        "UPDATE orders SET amount = 4 WHERE order_id = 18",
        "UPDATE orders SET amount = 9 WHERE order_id = 92",
        "UPDATE orders SET customer = 3 WHERE order_id = 31",
        "DELETE FROM orders WHERE order_id = 43",
        "INSERT INTO orders VALUES (50, 4, 3)",
    ),
    3: (
        "UPDATE orders SET amount = 8 WHERE order_id = 45",
        "UPDATE orders SET customer = 13 WHERE order_id = 88",
    ),
    4: (
        "UPDATE orders SET amount = 3 WHERE order_id = 58",
        "UPDATE orders SET order_id = 20 WHERE order_id = 97",
    ),
}
"""The upstream's changes before each epoch; those before epoch 4 come while epoch 3 is not committed yet."""


class DiedError(Exception):
    """The simulated death of a Spark application."""


class Example:
    """An upstream, a job on it with the strategy ``arrangement``, and the job's epochs."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        from airflow_backfill_provider.engine.spark_engine import SparkEngine

        self.spark = spark
        self.engine = SparkEngine(spark)
        self.blocks: dict[str, str] = {}
        self.orders = ExampleUpstream(spark, str(folder / "orders"), COLUMNS, FIRST_ROWS)
        job = BackfillJob(
            name="orders_by_customer",
            upstream={"path": self.orders.path, "key": ["order_id"], "distribution_key": ["customer"]},
            materialized_view=str(folder / "orders_by_customer"),
            query=QUERY,
            strategy="arrangement",
            vnode_count=VNODES,
            rate_limit=RATE_LIMIT,
        )
        self.backfill = Backfill(job)
        self.settings = creation.create_job(
            job,
            store=self.backfill.store,
            upstream=self.backfill.upstream,
            engine=lambda: self.engine,
            requested_by=YOU,
        )
        self.scan = VnodeScan(self.settings.key_order, VNODES, job.vnodes)
        customers = ", ".join(f"({customer})" for customer in range(1, 20))
        hashed = spark.sql(f"SELECT c, pmod(hash(c), {VNODES}) AS vnode FROM VALUES {customers} AS t(c)")
        self.vnode_of_customer = {row["c"]: row["vnode"] for row in hashed.collect()}

    def run(self) -> dict[str, str]:
        """Run the epochs and return the blocks of the page."""
        store = self.backfill.store
        rows = sorted((self.vnode_of(row), *row) for row in self.orders.rows_at(1))
        self.blocks["arrangement upstream"] = table(("vnode", *COLUMNS), rows)
        self.blocks["arrangement base"] = self.arranged(self.settings.base_epoch)

        self.change_upstream(1)
        barrier = self.inject(1)
        self.show(barrier, protocol.run_epoch(barrier, store=store, engine=self.engine))
        self.blocks["arrangement epoch 1 log"] = self.arranged(1)

        self.change_upstream(2)
        mutations.rescale_job(2, store=store, requested_by=YOU)
        barrier = self.inject(2)
        self.require(protocol.apply_changes(barrier, store=store, engine=self.engine) is None)
        self.require(protocol.read_chunk_part(barrier, 1, store=store, engine=self.engine) is None)
        self.show(barrier, protocol.read_chunk_part(barrier, 0, store=store, engine=self.engine))

        self.change_upstream(3)
        barrier = self.inject(3)
        self.require(protocol.apply_changes(barrier, store=store, engine=self.engine) is None)
        crash_points.install(_die_after_the_append)
        try:
            protocol.read_chunk_part(barrier, 1, store=store, engine=self.engine)
        except DiedError:
            self.blocks["arrangement epoch 3 died"] = self.view_log(3) + "\n" + self.barrier_log(3)
        finally:
            crash_points.install(None)
        self.require(protocol.read_chunk_part(barrier, 0, store=store, engine=self.engine) is None)
        self.change_upstream(4)
        self.show(barrier, protocol.read_chunk_part(barrier, 1, store=store, engine=self.engine))
        self.blocks["arrangement epoch 3 redone"] = self.view_log(3) + "\n" + self.barrier_log(3)

        mutations.rescale_job(1, store=store, requested_by=YOU)
        barrier = self.inject(4)
        self.show(barrier, protocol.run_epoch(barrier, store=store, engine=self.engine))
        self.finish()
        return self.blocks

    def change_upstream(self, epoch: int) -> None:
        """Change the upstream before an epoch."""
        for statement in STATEMENTS[epoch]:
            self.orders.sql(statement)
        first = 2 + sum(len(STATEMENTS[earlier]) for earlier in STATEMENTS if earlier < epoch)
        self.blocks[f"arrangement epoch {epoch} statements"] = statements_block(STATEMENTS[epoch], first)

    def inject(self, epoch: int) -> Barrier:
        """Pin the next barrier."""
        barrier = protocol.inject_barrier(
            store=self.backfill.store, upstream=self.backfill.upstream, requester=Requester(user=YOU)
        ).barrier
        if barrier is None or barrier.epoch != epoch:
            raise AssertionError(f"epoch {epoch} should be pinned, not {barrier}")
        return barrier

    def show(self, barrier: Barrier, commit: EpochCommit | None) -> None:
        """Check I1 after an epoch, and make the epoch's tables."""
        if commit is None:
            raise AssertionError(f"epoch {barrier.epoch} should be committed")
        outcome = compare_now(self.backfill, self.engine)
        if not outcome.equal:
            raise AssertionError(f"I1 does not hold after epoch {barrier.epoch}: {outcome}")
        name = f"arrangement epoch {barrier.epoch}"
        self.blocks[f"{name} barrier"] = self.barrier(barrier)
        self.blocks[f"{name} changes"] = self.changes(barrier, commit)
        self.blocks[f"{name} chunk"] = self.chunk(barrier, commit)
        self.blocks[f"{name} result"] = self.result()

    def finish(self) -> None:
        """Finish the view, and check that the arrangement is deleted."""
        arrangement = ArrangementFiles(location_of(self.settings))
        self.require(arrangement.exists())
        protocol.finish_job(store=self.backfill.store, requested_by=YOU)
        self.require(not arrangement.exists())

    # ------------------------------------------------------------------------------------------------- tables

    def barrier(self, barrier: Barrier) -> str:
        """Return the content of the barrier."""
        window = barrier.upstream
        changed = ", ".join(f"{pinned.mutation.value} to {pinned.value}" for pinned in barrier.mutations) or "none"
        before = self.in_words(decoded(barrier.read_before, self.scan.order)) or "nothing"
        parts = [
            (
                barrier.epoch,
                f"({version_of(window.from_offset)}, {version_of(window.to_offset)}]",
                before,
                number,
                _owned(*barrier.vnode_ranges[number]),
                self.in_words(decoded(part.ranges, self.scan.order)),
                changed,
            )
            for number, part in enumerate(barrier.parts)
        ]
        return table(("epoch", "window", "read before", "part", "its task run owns", "it reads", "mutation"), parts)

    def changes(self, barrier: Barrier, commit: EpochCommit) -> str:
        """Return the window's change feed, with the table that each change was written to."""
        changes = self.orders.feed(version_of(barrier.upstream.from_offset), version_of(barrier.upstream.to_offset))
        before = decoded(barrier.read_before, self.scan.order)
        last = {
            self.position(change.row): change
            for change in sorted(changes, key=lambda change: (change.version, change.upserts))
        }
        read_before = {position for position in last if any(r.contains(position, self.scan.order) for r in before)}
        self.require(len(read_before) == commit.upstream_output_row_count)
        self.require(len(last) - len(read_before) == len(self.entries(barrier.epoch)))
        rows = []
        for change in changes:
            position = self.position(change.row)
            if last[position] is not change:
                where, what = "", f"netted: a later image of {change.key} in vnode {position[0]} wins"
            elif position in read_before:
                where, what = "view", f"{change.key} is {'written' if change.upserts else 'deleted'}"
            else:
                where, what = "arrangement", self.fate(change, barrier)
            rows.append((change.version, change.kind, position[0], *change.row, where, what))
        return table(("version", "change", "vnode", *COLUMNS, "goes to", "what becomes of it"), rows)

    def fate(self, change: Change, barrier: Barrier) -> str:
        """Describe the effect of a change that is appended to the arrangement."""
        if not change.upserts:
            return f"no chunk finds {change.key} in vnode {self.vnode_of(change.row)}"
        position = self.position(change.row)
        inside = any(covered.contains(position, self.scan.order) for covered in barrier.chunk(self.scan.order))
        return f"{'this' if inside else 'a later'} chunk reads it"

    def chunk(self, barrier: Barrier, commit: EpochCommit) -> str:
        """Return the rows that each part reads from the arrangement, and compare them with the upstream."""
        newest: dict[tuple[int, ...], dict[str, Any]] = {}
        for epoch in range(barrier.epoch + 1):
            newest |= {(entry[OWN.vnode], entry["order_id"]): entry for entry in self.entries(epoch)}
        rows = []
        for number, part in enumerate(barrier.parts):
            for covered in decoded(part.ranges, self.scan.order):
                for position, entry in sorted(newest.items()):
                    if covered.contains(position, self.scan.order) and entry[OWN.is_upsert]:
                        origin = f"changes of epoch {entry[OWN.epoch]}" if entry[OWN.epoch] else "base"
                        rows.append((number, position[0], *(entry[name] for name in COLUMNS), origin))
        upstream = [
            row
            for row in self.orders.rows_at(version_of(barrier.upstream.to_offset))
            if any(covered.contains(self.position(row), self.scan.order) for covered in barrier.chunk(self.scan.order))
        ]
        self.require(sorted(row[2:5] for row in rows) == upstream)
        self.require(len(rows) == commit.snapshot_read_row_count)
        return table(("part", "vnode", *COLUMNS, "from"), rows)

    def result(self) -> str:
        """Return the current state and view."""
        columns = ("vnode", "order_id", "backfill_finished", "row_count", "epoch")
        state = read(self.spark, f"{self.backfill.job.state}/vnode_state").select(*columns)
        view = read(self.spark, self.backfill.job.materialized_view)
        return (
            "The state table afterwards:\n\n"
            + table(columns, sorted(map(tuple, state.collect())))
            + "\nThe view afterwards:\n\n"
            + table(("order_id", "cents"), sorted(map(tuple, view.collect())))
        )

    def arranged(self, epoch: int) -> str:
        """Return the rows that an epoch appended to the arrangement."""
        names = (OWN.vnode, "order_id", OWN.epoch, OWN.is_upsert, OWN.appeared, "customer", "amount")
        return table(
            [f"`{name}`" for name in names], ([entry[name] for name in names] for entry in self.entries(epoch))
        )

    def barrier_log(self, epoch: int) -> str:
        """Return the barrier log's rows of an epoch."""
        store = self.backfill.store
        (barrier,) = (found for found in store.barriers() if found.epoch == epoch)
        lines: list[tuple[object, ...]] = [(epoch, "injected", "", "", "")]
        reports = {report.part: report for report in store.reports(barrier)}
        for part, report in sorted(reports.items(), key=lambda item: -1 if item[0] is None else item[0]):
            rows = sum(report.rows.values())
            what = ("changes", "", rows) if part is None else (f"snapshot/{part}", rows, "")
            lines.append((epoch, "reported", *what))
        commit = store.commit_of(epoch)
        if commit is not None:
            counts = (commit.snapshot_read_row_count, commit.upstream_output_row_count)
            lines.append((epoch, "committed", "", *counts))
        return "The barrier log's rows of the epoch:\n\n" + table(
            ("epoch", "event", "by the task run of", "snapshot_read_row_count", "upstream_output_row_count"), lines
        )

    def view_log(self, epoch: int) -> str:
        """Return the view's commits of an epoch."""
        log = DeltaLog(self.backfill.job.materialized_view)
        lines = []
        for version in log.versions():
            commit = log.commit(version)
            for transaction, number in commit.transactions.items() if commit else ():
                if commit is not None and number == epoch:
                    lines.append((version, commit.operation, "/".join(transaction.split("/")[3:]), number))
        return "The view's commits of the epoch:\n\n" + table(
            ("version", "operation", "part", "epoch (the transaction's version)"), lines
        )

    # ------------------------------------------------------------------------------------------------- reading

    def entries(self, epoch: int) -> list[dict[str, Any]]:
        """Return the arrangement's rows that are stamped with an epoch, in order."""
        found = read(self.spark, location_of(self.settings)).filter(f"{OWN.epoch} = {epoch}").collect()
        return sorted((row.asDict() for row in found), key=lambda row: (row[OWN.vnode], row["order_id"]))

    def vnode_of(self, row: Row) -> int:
        """Return a row's vnode."""
        return int(self.vnode_of_customer[row[1]])

    def position(self, row: Row) -> tuple[int, int]:
        """Return a row's position in the scan's order."""
        return self.vnode_of(row), int(row[0])

    def in_words(self, ranges: Sequence[KeyRange]) -> str:
        """Describe the vnodes and keys of some ranges."""
        return ", ".join(words for covered in ranges for words in self._in_words(covered))

    def _in_words(self, covered: KeyRange) -> Iterator[str]:
        vnodes = self.scan.vnodes_of(covered)
        for vnode in vnodes:
            begins = covered.after is not None and len(covered.after) > 1 and covered.after[0] == vnode
            ends = covered.up_to is not None and len(covered.up_to) > 1 and covered.up_to[0] == vnode
            after = f" after {covered.after[1]}" if begins and covered.after else ""
            up_to = f" up to {covered.up_to[1]}" if ends and covered.up_to else ""
            yield f"vnode {vnode}{after}{up_to or (' to its end' if after else '')}"

    @staticmethod
    def require(condition: bool) -> None:  # noqa: FBT001 - an assertion
        """Fail if the example differs from the text on the page."""
        if not condition:
            raise AssertionError("the example differs from the text on the page")


def _owned(first: int, last: int) -> str:
    return f"vnode {first}" if first == last else f"vnodes {first} to {last}"


def _die_after_the_append(reached: CrashPoint) -> None:
    if reached is CrashPoint.AFTER_SNAPSHOT_COMMIT:
        raise DiedError
