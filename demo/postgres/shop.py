"""The shop's database: its logins, and the table of orders."""

from __future__ import annotations

import io
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg import sql

from demo.orders import first_orders
from demo.postgres.cluster import HOST, SUPERUSER, Cluster

DATABASE = "shop"
TABLE = "public.orders"

CREATE_TABLE = """
CREATE TABLE public.orders (
    region text COLLATE "C" NOT NULL, -- the order in which the backfill reads the key
    order_id bigint NOT NULL,
    customer_id bigint,
    country text,
    amount numeric(12, 2),
    discount double precision,
    status text,
    express boolean,
    items smallint,
    receipt bytea,
    due_on date,
    ordered_at timestamptz,
    updated_at timestamptz,
    notes text
)
"""

RIGHTS = (
    "GRANT CONNECT ON DATABASE {database} TO {login}",
    "GRANT USAGE ON SCHEMA public TO {login}",
    "GRANT SELECT ON public.orders TO {login}",
)
"""All rights of the job's login, as docs/how-to/backfill-from-postgresql.md gives them."""


@dataclass(frozen=True, slots=True)
class Login:
    """
    A login with a random password.

    :param attributes: its attributes in ``CREATE ROLE``.
    """

    name: str
    attributes: str
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


class Shop:
    """
    The shop's database.

    :param cluster: the server.
    :param publication: the publication of the job.
    """

    def __init__(self, cluster: Cluster, publication: str) -> None:
        self._cluster = cluster
        self._publication = publication
        self.owner = Login("shop", "LOGIN")
        """Owns the table and changes orders."""
        self.reader = Login("backfill", "LOGIN REPLICATION")
        """Reads for the job."""

    def create(self) -> None:
        """Create the logins and the database."""
        with self._connect(SUPERUSER, self._cluster.password, "postgres") as connection:
            for login in (self.owner, self.reader):
                # The server gets no password in plain text, so it cannot write one to its log.
                hashed = connection.pgconn.encrypt_password(
                    login.password.encode(), login.name.encode(), b"scram-sha-256"
                ).decode()
                connection.execute(
                    sql.SQL("CREATE ROLE {} {} PASSWORD {}").format(
                        sql.Identifier(login.name), sql.SQL(login.attributes), hashed
                    )
                )
            connection.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(self.owner.name))
            )

    def fill(self, rows: int) -> None:
        """Create the table with its first orders; then its owner grants the job's rights, and publishes the table."""
        with self._connect(self.owner.name, self.owner.password, DATABASE) as connection:
            connection.execute(CREATE_TABLE)
            with connection.cursor().copy("COPY public.orders FROM STDIN (FORMAT csv)") as copy:
                for part in first_orders(rows):
                    copy.write(as_csv(part))
            connection.execute("ALTER TABLE public.orders ADD PRIMARY KEY (region, order_id)")
            for right in RIGHTS:
                connection.execute(
                    sql.SQL(right).format(database=sql.Identifier(DATABASE), login=sql.Identifier(self.reader.name))
                )
            connection.execute(
                sql.SQL("CREATE PUBLICATION {} FOR TABLE public.orders").format(sql.Identifier(self._publication))
            )
            connection.execute("ANALYZE public.orders")

    @property
    def owner_environment(self) -> Mapping[str, str]:
        """The environment variables with which libpq connects as the owner."""
        return {
            "PGHOST": HOST,
            "PGPORT": str(self._cluster.port),
            "PGDATABASE": DATABASE,
            "PGUSER": self.owner.name,
            "PGPASSWORD": self.owner.password,
        }

    @property
    def reader_uri(self) -> str:
        """The job's connection as Airflow writes it."""
        return self._cluster.uri(DATABASE, self.reader.name, self.reader.password)

    def _connect(self, user: str, password: str, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host=HOST, port=self._cluster.port, dbname=database, user=user, password=password, autocommit=True
        )


def as_csv(orders: pa.Table) -> bytes:
    """Return orders as PostgreSQL's COPY reads them: an empty text has quotes, a null has none."""
    receipts = [f"\\x{receipt.hex()}" for receipt in orders["receipt"].to_pylist()]
    texts = orders.set_column(orders.schema.get_field_index("receipt"), "receipt", pa.array(receipts))
    written = io.BytesIO()
    pyarrow.csv.write_csv(texts, written, pyarrow.csv.WriteOptions(include_header=False))
    return written.getvalue()
