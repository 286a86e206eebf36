"""
Run backfills of rows of a megabyte on an engine with 2 GB of memory: ``make bench ARGS=wide_rows``.

One upstream is a table of PostgreSQL, of which all rows are read, and then updated in one transaction. The other one is
a topic of Kafka. Each view must have as many rows in the end. Rows are distinct, and compress well on disk.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider import protocol
from airflow_backfill_provider.applications.connect import connected, server_version
from airflow_backfill_provider.applications.connect_engine import ConnectEngine
from airflow_backfill_provider.applications.local_engine.server import start_engine, stop_engine
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from bench.measuring import REQUESTER, save_figures
from demo.kafka.records import write_all
from tests.kafka_broker import KafkaBroker, kafka_broker
from tests.postgres_server import PostgresServer, postgres_server

ROWS = int(os.environ.get("BENCH_WIDE_ROWS", "8000"))
MEMORY = os.environ.get("BENCH_WIDE_MEMORY", "2g")
WIDTH = 1_000_000
PORT = 15803
PARTITIONS = 4
CONNECTION, DATABASE, TOPIC = "bench_wide", "wide", "wide"

# These records compress two hundredfold, so a fetch has hundreds of them.
_PRODUCER = {"compression.type": "lz4", "message.max.bytes": 1_048_588, "queue.buffering.max.kbytes": 64 << 10}
_FILL = """
CREATE TABLE documents (id bigint PRIMARY KEY, body text COMPRESSION lz4);
INSERT INTO documents SELECT i, repeat(md5(i::text), {width} / 32) FROM generate_series(1, {rows}) i;
VACUUM (ANALYZE) documents
"""
_UPDATE = "UPDATE documents SET body = repeat(md5((-id)::text), {width} / 32)"


@dataclass(frozen=True, slots=True)
class Phase:
    """
    What was done until a view had all rows.

    :param seconds: of all its epochs.
    :param engine_bytes: the peak resident memory of the engine so far.
    :param client_bytes: that of this process, which lands the logs.
    """

    name: str
    rows: int
    seconds: float
    engine_bytes: int
    client_bytes: int


@dataclass
class WideRows:
    """
    The engine, and what was measured on it.

    :param folder: for the tables.
    :param process: the engine's process.
    """

    engine: ConnectEngine
    process: int
    folder: Path
    console: Console

    def create(self, name: str, upstream: Mapping[str, Any], query: str) -> Backfill:
        """Create a job."""
        job = BackfillJob(
            name=name,
            upstream=upstream,
            materialized_view=str(self.folder / name),
            query=query,
            state=str(self.folder / f"{name}_state"),
        )
        backfill = Backfill(job)
        creation.create_job(
            job,
            store=backfill.store,
            upstream=backfill.upstream,
            engine=lambda: self.engine,
            requested_by=str(REQUESTER),
        )
        return backfill

    def run(self, name: str, backfill: Backfill) -> Phase:
        """Run epochs until there is nothing to do, and check the number of rows in the view."""
        started = time.perf_counter()
        while (barrier := _pinned(backfill)) is not None:
            protocol.run_epoch(barrier, store=backfill.store, engine=self.engine)
        seconds = time.perf_counter() - started
        rows = DeltaTable(backfill.job.materialized_view).to_pyarrow_dataset().count_rows()
        assert rows == ROWS, f"{name}: the view has {rows:,} rows"
        client = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        phase = Phase(name, rows, seconds, _peak_bytes(self.process), client)
        self.console.print(f"  {name}: {seconds:.0f} s")
        return phase


def main(console: Console) -> None:
    """Run both backfills, and report."""
    with _wide_rows(console) as wide:
        phases = [*_of_postgres(wide), _of_kafka(wide)]
    table = Table("", "seconds", "peak of the engine", "and of the client", title=f"{ROWS:,} rows of {WIDTH:,} bytes")
    for phase in phases:
        peaks = (f"{peak >> 20:,} MB" for peak in (phase.engine_bytes, phase.client_bytes))
        table.add_row(phase.name, f"{phase.seconds:.0f}", *peaks)
    console.print(table)
    console.print(f"every figure: {save_figures('wide_rows', [asdict(phase) for phase in phases])}")


@contextmanager
def _wide_rows(console: Console) -> Iterator[WideRows]:
    """Start an engine with little memory."""
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        os.environ["XDG_STATE_HOME"] = str(folder)
        record, _ = start_engine(
            port=PORT, master="local[*]", conf={"spark.driver.memory": MEMORY}, connect=server_version
        )
        stack.callback(stop_engine)
        connection = stack.enter_context(connected(record.remote, what="bench"))
        engine = ConnectEngine(connection, None, purpose="epoch")
        yield WideRows(engine, record.process.pid, folder, console)


def _of_postgres(wide: WideRows) -> Iterator[Phase]:
    upstream = {"postgres": {"connection": CONNECTION, "table": "public.documents", "key": ["id"]}}
    with _folder() as folder, postgres_server(folder / "data") as server, _defined(server.uri(DATABASE)):
        _execute(server, _FILL, create=True)
        backfill = wide.create("postgres", upstream, "SELECT id, body FROM upstream")
        yield wide.run("PostgreSQL: rows", backfill)
        _execute(server, _UPDATE)
        yield wide.run("PostgreSQL: changes of one transaction", backfill)


def _of_kafka(wide: WideRows) -> Phase:
    upstream = {"kafka": {"connection": CONNECTION, "topic": TOPIC}}
    with _folder() as folder, kafka_broker(folder / "broker") as broker, _defined(broker.connection()):
        _produce(broker)
        backfill = wide.create("kafka", upstream, "SELECT partition, offset, value FROM upstream")
        return wide.run("Kafka: records", backfill)


def _pinned(backfill: Backfill) -> Any:
    return protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=REQUESTER).barrier


def _execute(server: PostgresServer, statements: str, *, create: bool = False) -> None:
    if create:
        server.create_database(DATABASE)
    with server.connect(DATABASE) as connection:
        for statement in statements.format(rows=ROWS, width=WIDTH).split(";"):
            connection.execute(statement.encode())


def _produce(broker: KafkaBroker) -> None:
    broker.create_topic(TOPIC, PARTITIONS)
    producer = broker.producer(_PRODUCER)
    write_all(producer, TOPIC, ((number % PARTITIONS, f"{number:032x}" * (WIDTH // 32)) for number in range(ROWS)))


def _peak_bytes(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@contextmanager
def _defined(uri: str) -> Iterator[None]:
    """Define the connection that the jobs name."""
    name = f"AIRFLOW_CONN_{CONNECTION.upper()}"
    os.environ[name] = uri
    try:
        yield
    finally:
        del os.environ[name]


@contextmanager
def _folder() -> Iterator[Path]:
    # PostgreSQL's user must be able to enter it.
    folder = Path(tempfile.mkdtemp(prefix="backfill-bench-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
