"""Both drivers verify the server, libpq and JDBC, and can show it a certificate; else nothing is read or lost."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import DatabaseRefusedError
from airflow_backfill_provider.core.scan.keys import EVERYTHING
from airflow_backfill_provider.sources import reader_of
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.sources.shared.postgresql import catalog
from airflow_backfill_provider.sources.shared.postgresql.database import Database
from demo.postgres.cluster import give
from tests.certificates import Authority, Certificate, ec_key, rsa_key
from tests.integration.postgres.shop import Shop
from tests.postgres_server import PASSWORD, PostgresServer, postgres_server
from tests.variants import mostly_exhaustive

pytestmark = pytest.mark.spark

HOST, OTHER_HOST = "localhost", "127.0.0.1"
"""Two names of this machine. The server's certificate has the first one."""

RULES = """
hostnossl all admin all reject
hostnossl all backfill all reject
hostssl all certified all cert
"""


@dataclass(frozen=True, slots=True)
class SecureServer:
    """A server that wants TLS, the authority that signed its certificate, and one that it does not know."""

    server: PostgresServer
    authority: Authority
    stranger: Authority


@pytest.fixture(scope="module")
def secure() -> Iterator[SecureServer]:
    """A server of these tests' own."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-tls-"))
    folder.chmod(0o755)
    authority, stranger = Authority(folder, "authority"), Authority(folder, "stranger")
    own = authority.issue("server", host=HOST)
    give(own.key)
    settings = {"ssl": "on", "ssl_cert_file": own.certificate, "ssl_key_file": own.key}
    settings["ssl_ca_file"] = authority.certificate
    try:
        with postgres_server(folder / "data", {name: str(value) for name, value in settings.items()}, RULES) as server:
            with server.connect(sslmode="require") as connection:
                connection.execute("CREATE ROLE certified LOGIN REPLICATION SUPERUSER")
            yield SecureServer(server, authority, stranger)
    finally:
        shutil.rmtree(folder)


Connect = Callable[..., None]


@pytest.fixture
def connect(secure: SecureServer, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Sets the job's connection, as Airflow writes it, with TLS in its extras."""

    def connect(
        host: str = HOST,
        authority: Authority | None = None,
        login: str = "admin",
        certificate: Certificate | None = None,
    ) -> None:
        shown = {} if certificate is None else {"sslcert": str(certificate.certificate), "sslkey": str(certificate.key)}
        fields = {
            "conn_type": "postgres",
            "host": host,
            "port": secure.server.port,
            "login": login,
            "password": PASSWORD if login == "admin" else None,
            "schema": request.node.name.partition("[")[0][:60],
            "extra": {
                "sslmode": "verify-full",
                "sslrootcert": str((authority or secure.authority).certificate),
                **shown,
            },
        }
        monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", json.dumps(fields))

    return connect


@pytest.fixture
def shop(
    secure: SecureServer, connect: Connect, request: pytest.FixtureRequest, spark: SparkSession, lake: Path
) -> Iterator[Shop]:
    """A database on this server, with rows."""
    name = request.node.name.partition("[")[0][:60]
    with secure.server.connect(sslmode="require") as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" (FORCE)')
    secure.server.create_database(name)
    connect()
    shop = Shop(spark, lake, secure.server.connect(name, sslmode="require"))
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    shop.run_sql("INSERT INTO orders SELECT i, 'n' || i FROM generate_series(1, 30) i")
    try:
        yield shop
    finally:
        shop.database.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = current_database() AND NOT active"
        )
        shop.database.close()


def assert_equal(shop: Shop) -> None:
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


@pytest.mark.exhaustive
def test_a_view_is_made_over_a_verified_connection(shop: Shop) -> None:
    """The server takes no connection without TLS."""
    shop.create(rate_limit=10)
    shop.epoch()
    shop.run_sql("UPDATE orders SET name = 'changed' WHERE id IN (3, 28)", "DELETE FROM orders WHERE id = 4")
    shop.finish()
    assert_equal(shop)
    shop.assert_truth()


WRONG = {
    "another host": ("does not match host name", {"host": OTHER_HOST}),
    "another authority": ("certificate verify failed", {"authority": "stranger"}),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", WRONG)
def test_a_server_that_cannot_be_verified_is_refused_and_nothing_is_lost(
    shop: Shop, secure: SecureServer, connect: Connect, what: str
) -> None:
    """I6: by libpq, when an epoch is requested."""
    shop.create(rate_limit=10)
    shop.epoch()
    message, wrong = WRONG[what]
    connect(**{name: secure.stranger if value == "stranger" else value for name, value in wrong.items()})
    shop.run_sql("UPDATE orders SET name = 'changed' WHERE id IN (3, 28)")
    with pytest.raises(DatabaseRefusedError, match=f"{message}.*sslmode and sslrootcert"):
        shop.epoch()
    connect()
    shop.finish()
    assert_equal(shop)


def a_reader(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> SourceReader:
    """Return a reader that knows the table, so that only its rows are still to be read, over JDBC."""
    upstream = shop.backfill.upstream
    described = upstream.at()
    monkeypatch.setattr(upstream, "at", lambda *_: described)
    return reader_of(shop.backfill.job.upstream, upstream, shop.spark)


@pytest.mark.parametrize("what", mostly_exhaustive(WRONG, ["another host"]))
def test_jdbc_refuses_a_server_that_cannot_be_verified(
    shop: Shop, secure: SecureServer, connect: Connect, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6: it verifies the server itself, with the same extras."""
    shop.create()
    reader = a_reader(shop, monkeypatch)
    assert reader.present_rows([EVERYTHING]).count() == 30
    wrong = WRONG[what][1]
    # Otherwise libpq connects first, and refuses the server.
    monkeypatch.setattr(Database, "resolved_parameters", Database.parameters)
    monkeypatch.setattr(Database, "session", lambda _: nullcontext())
    monkeypatch.setattr(catalog, "has_long_values", lambda *_: False)
    connect(**{name: secure.stranger if value == "stranger" else value for name, value in wrong.items()})
    with pytest.raises(DatabaseRefusedError, match="JDBC driver.*sslmode and sslrootcert"):
        reader.present_rows([EVERYTHING])


@pytest.mark.exhaustive
def test_a_client_certificate_takes_the_place_of_a_password(shop: Shop, secure: SecureServer, connect: Connect) -> None:
    """Its key is PKCS-8 in PEM, which both drivers read."""
    connect(login="certified", certificate=secure.authority.issue("certified"))
    shop.create(rate_limit=10)
    shop.epoch()
    shop.run_sql("UPDATE orders SET name = 'changed' WHERE id IN (3, 28)")
    shop.finish()
    assert_equal(shop)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("key", "key_format"), [(rsa_key, PrivateFormat.TraditionalOpenSSL), (ec_key, PrivateFormat.PKCS8)]
)
def test_a_client_key_that_jdbc_cannot_read_is_refused_with_the_form_to_use(
    shop: Shop, secure: SecureServer, connect: Connect, key: Callable[[], object], key_format: PrivateFormat
) -> None:
    """I6: libpq reads more forms."""
    connect(login="certified", certificate=secure.authority.issue("certified"))
    shop.create()
    connect(login="certified", certificate=secure.authority.issue("certified", key=key(), key_format=key_format))
    with pytest.raises(DatabaseRefusedError, match="sslkey.*PKCS-8"):
        shop.finish()
    connect(login="certified", certificate=secure.authority.issue("certified"))
    shop.finish()
    assert_equal(shop)
