"""The shop of ``make demo-cdc`` on a real server: its logins, its orders, and what its writer does."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql
from rich.console import Console

from airflow_backfill_provider.core.job.connections import connection_fields, parse_connection
from airflow_backfill_provider.core.job.definition import BackfillJob
from demo.folder import DemoFolder, Size
from demo.orders_writer import read_report
from demo.postgres.cluster import may_enter
from demo.postgres.shop import DATABASE, Shop
from demo.postgres.upstream import CONNECTION, SERVER, PostgresOrders
from demo.postgres.writer import PostgresWriter
from demo.processes import Processes
from demo.run import DemoRun
from demo.terminal import Terminal
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.slow

ROWS = 3000


@pytest.fixture(scope="module")
def demo_shop(postgres: PostgresServer) -> Iterator[Shop]:
    shop = Shop(postgres, publication="airflow_backfill_active_orders")
    shop.create()
    shop.fill(ROWS)
    yield shop
    with postgres.connect() as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(DATABASE)))
        for login in (shop.owner, shop.reader):
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(login.name)))


@pytest.fixture
def owner(demo_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    """A session as the writer opens it."""
    for name, value in demo_shop.owner_environment.items():
        monkeypatch.setenv(name, value)
    with psycopg.connect(autocommit=True) as connection:
        yield connection


def counted(connection: psycopg.Connection, query: str) -> int:
    ((count,),) = connection.execute(query).fetchall()
    return count


def test_the_writer_changes_orders_in_every_way_and_its_counts_are_right(owner):
    before = counted(owner, "SELECT count(*) FROM orders")
    transactions = counted(owner, "SELECT pg_current_xact_id()::text::bigint")
    writer = PostgresWriter(owner, seed=3)
    for _ in range(200):
        writer.commit()
    report = writer.report
    assert min(report.inserted, report.updated, report.deleted, report.rekeyed) > 0
    assert counted(owner, "SELECT count(*) FROM orders") == before + report.inserted - report.deleted
    # Some transactions change nothing, and get no number.
    assert 100 < counted(owner, "SELECT pg_current_xact_id()::text::bigint") - transactions <= 201
    assert report.commits == 200
    sizes = [
        size for (size,) in owner.execute("SELECT count(*) FROM orders GROUP BY xmin::text ORDER BY 1 DESC").fetchall()
    ]
    assert sizes[1] > 1, "some transactions write several rows"


def test_the_login_of_the_job_may_read_and_follow_and_nothing_else(demo_shop, owner):
    fields = parse_connection(demo_shop.reader_uri, "here")
    assert fields.login == "backfill"
    assert demo_shop.owner.password not in demo_shop.reader_uri
    with psycopg.connect(
        host=fields.host,
        port=fields.port,
        dbname=fields.schema,
        user=fields.login,
        password=fields.password,
        autocommit=True,
    ) as reader:
        assert counted(reader, "SELECT count(*) FROM public.orders") > 0
        reader.execute("SELECT pg_create_logical_replication_slot('mine', 'pgoutput')")
        reader.execute("SELECT pg_drop_replication_slot('mine')")
        for statement in (
            "DELETE FROM public.orders",
            "UPDATE public.orders SET amount = 0",
            "CREATE TABLE public.mine (id int)",
            "DROP PUBLICATION airflow_backfill_active_orders",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                reader.execute(statement)


def test_passwords_are_never_in_the_log_of_the_server(demo_shop, postgres):
    log = postgres.log.read_text(encoding="utf-8")
    assert demo_shop.owner.password not in log
    assert demo_shop.reader.password not in log


@pytest.fixture(params=["a folder that everybody may enter", "a private folder"])
def run(request: pytest.FixtureRequest) -> Iterator[DemoRun]:
    path = Path(tempfile.mkdtemp(prefix="demo-cdc-"))
    path.chmod(0o755 if "everybody" in request.param else 0o700)
    folder = DemoFolder(path)
    folder.logs.mkdir()
    run = DemoRun(folder, Processes(folder.logs), Processes(folder.logs), Terminal(Console(file=io.StringIO())))
    yield run
    run.processes.stop()
    run.servers.stop()
    shutil.rmtree(path)


@pytest.mark.exhaustive
def test_the_upstream_of_the_demo_from_its_server_to_the_check(run, monkeypatch):
    """The server runs in the demo's own folder if its user may enter that; it stops after everything else."""
    monkeypatch.setenv("AIRFLOW_CONN_DEMO_SHOP", "is set by the demo")
    upstream = PostgresOrders(run, Size(rows=2000, rate_limit=500, epochs_per_run=2))
    upstream.write_job()
    job = BackfillJob.from_yaml(run.folder.job)
    assert job.upstream.location == "demo_shop: public.orders"
    assert connection_fields(CONNECTION).login == "backfill"
    upstream.create()
    assert (run.folder.path / SERVER).exists() == bool(upstream.places) == may_enter(run.folder.path)
    upstream.start_writer()
    assert (run.folder.path / "environment").stat().st_mode & 0o777 == 0o600
    while read_report(run.folder.writer_report) is None:
        run.require_alive()

    headings = []
    upstream.before_the_check(headings.append)

    written = read_report(run.folder.writer_report)
    assert f"commits {written.commits}," in run.processes.log("writer").read_text()
    assert ["The writer stops" in heading for heading in headings] == [True]
    run.require_alive()
    ((_, uri),) = upstream.environment.items()
    session = psycopg.connect(uri)
    run.servers.stop()
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")
    assert "database system is shut down" in run.servers.log(SERVER).read_text()
