"""What PostgreSQL's catalog says about a table: its identity, columns, key and size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors, sql

from airflow_backfill_provider.core.errors import InvalidJobError, UpstreamError, UpstreamNotFoundError
from airflow_backfill_provider.sources.shared.postgresql.published_schemas import with_published_schemas
from airflow_backfill_provider.sources.shared.postgresql.types import PostgresType

Connection = psycopg.Connection[tuple[Any, ...]]

_PLAIN = "r"
_READABLE_KINDS = {_PLAIN: "table", "p": "partitioned table"}
_FULL, _PERMANENT = "f", "p"

_SCHEMA = re.compile(r"permission denied for schema (.+)")

_NO_NAME = (errors.SyntaxError, errors.InvalidName, errors.FeatureNotSupported)
"""What the server says to a text that cannot be a table's name: too many dots, a quote that does not end."""

_TABLE = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, c.relpersistence::text,
       has_any_column_privilege(c.oid, 'SELECT'), row_security_active(c.oid),
       EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid), c.relispartition,
       (SELECT string_agg(m.oid::regclass::text, ', ' ORDER BY m.oid)
        FROM pg_partition_tree(c.oid) t JOIN pg_class m ON m.oid = t.relid
        WHERE t.isleaf AND (m.relkind <> 'r' OR m.relpersistence <> 'p'))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s)
"""

_COLUMNS = """
SELECT a.attname, a.atttypid::bigint, a.atttypmod, a.attnotnull, a.attgenerated::text, a.attlen = -1,
       has_column_privilege(a.attrelid, a.attnum, 'SELECT')
FROM pg_attribute a WHERE a.attrelid = %s::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""

# An index that identifies rows: unique at every moment, over whole columns of the whole table.
_UNIQUE_INDEXES = """
SELECT ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, n)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
             WHERE k.n <= i.indnkeyatts ORDER BY k.n)
FROM pg_index i
WHERE i.indrelid = %s::bigint::oid AND i.indisunique AND i.indisvalid AND i.indimmediate
      AND i.indpred IS NULL AND i.indexprs IS NULL
"""

# Rows are logged under the identity of the partition that they lie in.
_IDENTITIES = """
SELECT c.relreplident::text, c.oid = %s::bigint::oid,
       ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
             WHERE i.indrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
                   AND ((c.relreplident = 'd' AND i.indisprimary) OR (c.relreplident = 'i' AND i.indisreplident)))
FROM pg_class c
WHERE c.oid = %s::bigint::oid OR c.oid IN (SELECT relid FROM pg_partition_tree(%s::bigint::oid::regclass) WHERE isleaf)
"""

# A partition that was attached was a table before: one of its system columns, whose rows in the catalog are never
# written again, is older than its place in the tree, by a transaction or by more commands than CREATE TABLE has.
# While it has no pages, it never had rows. The same partition in a new place has another transaction there.
_PARTITIONS = """
WITH RECURSIVE tree (root, member, kind, was_attached, since) AS (
    SELECT r.oid, r.oid, r.relkind, false, ''
    FROM pg_publication p
    JOIN pg_class r ON r.relkind = 'p' AND NOT r.relispartition AND (p.puballtables OR EXISTS (
        SELECT FROM pg_publication_rel l WHERE l.prpubid = p.oid AND l.prrelid = r.oid) OR EXISTS (
        SELECT FROM {published_schemas} s WHERE s.pnpubid = p.oid AND s.pnnspid = r.relnamespace))
    WHERE p.pubname = %s
    UNION ALL
    SELECT t.root, c.oid, c.relkind,
           t.was_attached OR i.xmin::text <> a.xmin::text OR i.cmin::text::bigint - a.cmin::text::bigint > 4,
           ltrim(t.since || ' ' || i.xmin)
    FROM tree t
    JOIN pg_inherits i ON i.inhparent = t.member AND NOT i.inhdetachpending
    JOIN pg_class c ON c.oid = i.inhrelid
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tableoid'
)
SELECT root::bigint, member::bigint, member::regclass::text, was_attached AND pg_relation_size(member) > 0, since
FROM tree WHERE kind <> 'p' OR member = root
"""

_TYPES = """
SELECT t.oid::bigint, n.nspname, t.typname, t.typtype::text, t.typbasetype::bigint, t.typtypmod, t.typelem::bigint,
       t.typcategory::text
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = ANY(%s::bigint[]::oid[])
"""

_SIZE = """
SELECT sum(greatest(reltuples, 0))::bigint, sum(pg_relation_size(oid))::bigint
FROM pg_class WHERE relkind <> 'p' AND oid IN (SELECT relid FROM pg_partition_tree(%s::bigint::oid::regclass)
                                              UNION SELECT %s::bigint::oid)
"""

_LONG_VALUES = """
SELECT EXISTS (SELECT FROM pg_class WHERE reltoastrelid <> 0 AND pg_relation_size(reltoastrelid) > 0
               AND oid IN (SELECT relid FROM pg_partition_tree(%s::bigint::oid::regclass) UNION SELECT %s::bigint::oid))
"""

_SERVER = """
SELECT (SELECT system_identifier::text FROM pg_control_system()),
       (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
       current_setting('server_encoding'), current_setting('wal_level'), pg_is_in_recovery()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedColumn:
    """
    A column of a table.

    :param nullable: whether it may be null.
    :param generated: whether the server computes it from other columns; the log does not have such columns.
    :param readable: whether the login may read it.
    :param may_be_toasted: whether long values may be stored out of line (TOAST), so that the log leaves them out of an
        update that does not change them.
    """

    name: str
    type: PostgresType
    nullable: bool
    generated: bool
    may_be_toasted: bool
    readable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTable:
    """
    A table.

    :param oid: its oid, which a table that is created again does not get again.
    :param login: the login that asked.
    :param identity_key: the columns by which the log identifies an old row, in each partition; empty if it does not.
    :param unique_keys: the columns of each index that identifies rows.
    """

    oid: int
    schema: str
    name: str
    columns: tuple[DescribedColumn, ...]
    identity_key: tuple[str, ...]
    unique_keys: tuple[tuple[str, ...], ...]
    login: str = ""

    def column(self, name: str) -> DescribedColumn | None:
        """Return a column by its name."""
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """
    A database server, and the database.

    :param system: the identifier of the cluster, which a copy of it shares.
    :param database: the oid of the database.
    :param is_standby: whether the server is a standby, which cannot have logical slots in PostgreSQL 15.
    """

    system: str
    database: int
    encoding: str
    wal_level: str
    is_standby: bool


def server_run(connection: Connection) -> str:
    """
    Return what identifies the server's run since it last recovered from a crash.

    A recovery resets the server's statistics, also if only one of its processes was killed; a shutdown keeps them.
    """
    row = connection.execute("SELECT stats_reset::text FROM pg_stat_bgwriter").fetchone()
    return (row and row[0]) or ""


def server(connection: Connection) -> Server:
    """Describe the server."""
    row = connection.execute(_SERVER).fetchone()
    if row is None:
        raise UpstreamError("the server describes itself with no row")
    return Server(system=row[0], database=row[1], encoding=row[2], wal_level=row[3], is_standby=row[4])


def describe_table(connection: Connection, table: str) -> DescribedTable:
    """
    Describe a table.

    :param connection: a session outside of a transaction.
    :param table: its name with its schema, quoted as in SQL where that is necessary.
    :raises InvalidJobError: if the name is none of a table.
    :raises UpstreamNotFoundError: if there is no such table, or the login may not read it.
    :raises UpstreamError: if it is something else than a table with a log.
    """
    try:
        with connection.transaction():
            # All of it as of one moment, whatever DDL runs meanwhile.
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return _described(connection, table)
    except errors.InsufficientPrivilege as error:
        raise UpstreamNotFoundError(_may_not_enter(connection, table, error)) from error
    except _NO_NAME:
        # The server's own words are about its grammar.
        raise InvalidJobError(
            f"upstream.postgres.table: {table!r} does not name a table of database {connection.info.dbname}; write its "
            'schema, a dot and its name, such as public.orders, and quote what SQL would quote: public."My orders"'
        ) from None


def _may_not_enter(connection: Connection, table: str, error: Exception) -> str:
    """Return that the login may not look into the table's schema, and the statement to run."""
    found = _SCHEMA.search(str(error))
    schema = sql.Identifier(found[1]).as_string() if found else "…"
    return (
        f"the login {connection.info.user} may not use the schema of {table}; run: GRANT USAGE ON SCHEMA {schema} TO "
        f"{sql.Identifier(connection.info.user).as_string()}"
    )


def _described(connection: Connection, table: str) -> DescribedTable:
    row = connection.execute(_TABLE, [table]).fetchone()
    if row is None:
        raise UpstreamNotFoundError(
            f"there is no table {table} in database {connection.info.dbname}; name it with its schema, such as "
            "public.orders"
        )
    oid, schema, name, kind, persistence, readable, is_filtered, has_children, is_partition, unlogged = row
    if kind not in _READABLE_KINDS:
        raise UpstreamError(f"{table} is not a table, but of the kind {kind!r} in pg_class; name a table")
    if persistence != _PERMANENT:
        raise UpstreamError(f"{table} is an unlogged or temporary table, so the log does not have its changes")
    if not readable:
        raise UpstreamNotFoundError(
            f"the login {connection.info.user} may not read {table}; run: GRANT SELECT ON {table} TO "
            f"{sql.Identifier(connection.info.user).as_string(connection)}"
        )
    if is_filtered:
        raise UpstreamError(
            f"row security hides rows of {table} from the login {connection.info.user}, and the log has all of them; "
            f"run: ALTER ROLE {sql.Identifier(connection.info.user).as_string(connection)} BYPASSRLS"
        )
    if kind == _PLAIN and has_children:
        raise UpstreamError(
            f"{table} has tables that inherit from it (INHERITS), and the log has their rows under their own names; "
            "make a job for each of them, or a partitioned table"
        )
    if kind != _PLAIN and is_partition:
        raise UpstreamError(
            f"{table} is a partition that has partitions itself, and the log has their rows as those of the whole "
            "table; name the whole table, or a partition without partitions"
        )
    if kind != _PLAIN and unlogged:
        raise UpstreamError(
            f"{table} has partitions that are foreign, unlogged or temporary tables, so the log does not have their "
            f"changes: {unlogged}; detach them, or make a job for each other partition"
        )
    columns = connection.execute(_COLUMNS, [oid]).fetchall()
    types = resolve_types(connection, ((type_oid, modifier) for _, type_oid, modifier, *_ in columns))
    indexes = connection.execute(_UNIQUE_INDEXES, [oid]).fetchall()
    described = tuple(
        DescribedColumn(
            name=column,
            type=types[type_oid, modifier],
            nullable=not not_null,
            generated=bool(generated),
            may_be_toasted=varies,
            readable=readable,
        )
        for column, type_oid, modifier, not_null, generated, varies, readable in columns
    )
    return DescribedTable(
        oid=oid,
        schema=schema,
        name=name,
        columns=described,
        identity_key=_identity_key(connection, oid, described),
        unique_keys=tuple(tuple(names) for (names,) in indexes),
        login=connection.info.user,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """
    A partition that has no partitions itself.

    :param was_attached: whether it, or a partition above it, was a table of its own before, and it may have had rows.
    :param since: what identifies its place in the tree; another text if it was detached and attached again.
    """

    oid: int
    name: str
    was_attached: bool
    since: str


def partitions(connection: Connection, publication: str) -> dict[int, list[Partition]]:
    """Return the partitions of all published tables that are partitioned, by the oid of the table."""
    trees: dict[int, list[Partition]] = {}
    query = with_published_schemas(_PARTITIONS, connection.info.server_version)
    for root, oid, name, attached, since in connection.execute(query, [publication]):
        leaves = trees.setdefault(root, [])
        if oid != root:
            leaves.append(Partition(oid=oid, name=name, was_attached=attached, since=since))
    return trees


def size_of(connection: Connection, oid: int) -> tuple[int, int]:
    """Return the server's estimate of a table's rows, and the bytes of its pages; with all of its partitions."""
    row = connection.execute(_SIZE, [oid, oid]).fetchone()
    return (0, 0) if row is None else (row[0] or 0, row[1] or 0)


def has_long_values(connection: Connection, oid: int) -> bool:
    """Return whether a table or one of its partitions has values that are stored out of line (TOAST)."""
    row = connection.execute(_LONG_VALUES, [oid, oid]).fetchone()
    return row is not None and bool(row[0])


def resolve_types(connection: Connection, types: Iterable[tuple[int, int]]) -> dict[tuple[int, int], PostgresType]:
    """
    Return types by their oid and modifier: the base type of a domain, the element type of an array.

    A type of another schema than PostgreSQL's own gets the schema in its name, so that it is not mistaken for one. A
    type that was dropped is left out.
    """
    wanted = set(types)
    catalog = _catalog(connection, {oid for oid, _ in wanted})
    return {(oid, modifier): _resolved(catalog, oid, modifier) for oid, modifier in wanted if oid in catalog}


_CatalogRow = tuple[int, str, str, str, int, int, int, str]


def _catalog(connection: Connection, oids: set[int]) -> Mapping[int, _CatalogRow]:
    """Return the catalog's rows of types, and of the types that they consist of."""
    found: dict[int, Any] = {}
    missing = oids
    while missing:
        rows = connection.execute(_TYPES, [sorted(missing)]).fetchall()
        found.update({row[0]: row for row in rows})
        missing = {part for row in rows for part in (row[4], row[6]) if part} - set(found)
    return found


def _resolved(catalog: Mapping[int, _CatalogRow], oid: int, modifier: int) -> PostgresType:
    _, schema, name, kind, base, base_modifier, element, category = catalog[oid]
    if kind == "d":
        return _resolved(catalog, base, base_modifier)
    if category == "A" and element:
        return PostgresType(name=name, modifier=modifier, element=_resolved(catalog, element, modifier))
    return PostgresType(name=name if schema == "pg_catalog" else f"{schema}.{name}", kind=kind, modifier=modifier)


def _identity_key(connection: Connection, oid: int, columns: Sequence[DescribedColumn]) -> tuple[str, ...]:
    """Return the columns by which the log identifies an old row, in whatever partition it lies."""
    everything = tuple(column.name for column in columns)
    found = connection.execute(_IDENTITIES, [oid, oid, oid]).fetchall()
    # A partitioned table has no rows itself, so its own identity counts only before it has partitions.
    identities = [row for row in found if not row[1]] or found
    keys = [everything if identity == _FULL else tuple(names) for identity, _, names in identities]
    return tuple(name for name in everything if all(name in key for key in keys))
