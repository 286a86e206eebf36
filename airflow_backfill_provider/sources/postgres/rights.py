"""
What a job needs beyond reading: a slot, and a publication that has the table.

A plan names what is missing; the creation of a job is refused with the same words, before anything is made.
"""

from __future__ import annotations

from collections.abc import Iterator

from psycopg import sql

from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection, DescribedTable

NO_LOGICAL_LOG = "the server writes no logical replication log; set wal_level = logical, and restart the server"
NO_SLOT_LEFT = "all replication slots of the server are in use; raise max_replication_slots, or drop unused slots"

# A cloud's server may let the members of a role of its own replicate, such as rds_replication.
_RIGHTS = """
SELECT current_setting('wal_level') = 'logical',
       r.rolreplication OR r.rolsuper OR EXISTS (
           SELECT FROM pg_roles g WHERE g.rolname LIKE '%%replication%%' AND pg_has_role(r.oid, g.oid, 'MEMBER')),
       EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %s)
           OR (SELECT count(*) FROM pg_replication_slots) < current_setting('max_replication_slots')::int,
       p.oid IS NOT NULL,
       EXISTS (SELECT FROM pg_class c WHERE c.oid = %s::bigint::oid AND pg_has_role(c.relowner, 'USAGE'))
           AND CASE WHEN p.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
                    ELSE pg_has_role(p.pubowner, 'USAGE') END
FROM pg_roles r LEFT JOIN pg_publication p ON p.pubname = %s WHERE r.rolname = current_user
"""


def missing_rights(
    connection: Connection, *, slot: str, publication: str, table: DescribedTable, is_published: bool
) -> Iterator[str]:
    """
    Yield what the login or the server lacks, each with what to do.

    :param slot: the slot's name.
    :param publication: the publication's name.
    :param is_published: whether the publication has the table.
    """
    row = connection.execute(_RIGHTS, [slot, table.oid, publication]).fetchone()
    if row is None:
        return
    has_log, may_replicate, has_slot, has_publication, may_publish = row
    if not has_log:
        yield NO_LOGICAL_LOG
    if not may_replicate:
        yield may_not_replicate(connection)
    if not has_slot:
        yield NO_SLOT_LEFT
    if not (is_published or may_publish):
        statement = "ALTER PUBLICATION {} ADD TABLE {}" if has_publication else "CREATE PUBLICATION {} FOR TABLE {}"
        names = sql.Identifier(publication), sql.Identifier(table.schema, table.name)
        yield may_not_publish(connection, sql.SQL(statement).format(*names))


def may_not_replicate(connection: Connection) -> str:
    """Return that the login may not have a slot, and the statement to run."""
    name = sql.Identifier(connection.info.user).as_string(connection)
    return f"the login {connection.info.user} may not create a replication slot; run: ALTER ROLE {name} REPLICATION"


def may_not_publish(connection: Connection, statement: sql.Composed) -> str:
    """Return that the login may not publish the table, and the statement to run."""
    return (
        f"the login {connection.info.user} may not define the publication; let the table's owner run: "
        f"{statement.as_string(connection)}"
    )
