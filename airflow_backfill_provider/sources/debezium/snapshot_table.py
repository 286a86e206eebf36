"""The database's table whose present rows are read, for what its events lack."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange, Position
from airflow_backfill_provider.sources.debezium.definition import SnapshotDefinition
from airflow_backfill_provider.sources.debezium.encodings import Encoding, encoding_of
from airflow_backfill_provider.sources.shared.postgresql import catalog
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection, DescribedTable
from airflow_backfill_provider.sources.shared.postgresql.column_identity import (
    column_identities,
    identity_problems,
    pinned_identities,
)
from airflow_backfill_provider.sources.shared.postgresql.database import Database
from airflow_backfill_provider.sources.shared.postgresql.key_sample import first_rows, rows_in, sampled_keys
from airflow_backfill_provider.sources.shared.postgresql.on_disk import wait_until_on_disk
from airflow_backfill_provider.sources.shared.postgresql.rewrites import TableLook, lost_values
from airflow_backfill_provider.sources.shared.postgresql.table_key import require_key
from airflow_backfill_provider.sources.shared.postgresql.transactions import UnseenTransactions, unseen_transactions

_COLUMN, _LOOK = "column ", "look"
"""The names of what a job pins; each column has its own."""

_VERSION = " table "
"""Stands between the server's run and the version of the table."""


class SnapshotTable:
    """
    A table in a PostgreSQL database, asked on demand.

    :param definition: where it is.
    """

    def __init__(self, definition: SnapshotDefinition) -> None:
        self._definition = definition
        self.database = Database(definition.connection)

    @property
    def location(self) -> str:
        """The connection and the table."""
        return f"{self._definition.connection}: {self._definition.table}"

    @cached_property
    def described(self) -> DescribedTable:
        """
        The table, as the catalog has it.

        :raises UpstreamNotFoundError: if there is no such table, or it cannot be read.
        """
        with self.database.session() as connection:
            return catalog.describe_table(connection, self._definition.table)

    @cached_property
    def row_count(self) -> int:
        """The server's estimate of the table's rows."""
        with self.database.session() as connection:
            return catalog.size_of(connection, self.described.oid)[0]

    def encodings(self, types: Mapping[str, str]) -> dict[str, Encoding]:
        """
        Return how the events encode the columns that they and the table have alike.

        :param types: column → its type in the events.
        """
        found = {
            column.name: encoding_of(column.type, types[column.name])
            for column in self.described.columns
            if column.name in types and not column.generated and column.readable
        }
        return {name: encoding for name, encoding in found.items() if encoding is not None}

    def differences(self, used: Collection[str], types: Mapping[str, str]) -> list[str]:
        """Return the used columns whose values in the events and in the table may differ."""
        alike = self.encodings(types)
        problems = []
        for name in sorted(set(used) - set(alike)):
            column = self.described.column(name)
            if column is None:
                problems.append(f"{name} (the table has no such column)")
            elif not column.readable:
                problems.append(f"{name} (the login may not read it: GRANT SELECT)")
            else:
                problems.append(f"{name} ({column.type} in the table, {types[name]} in the events)")
        return problems

    def require_key(self, key: Sequence[str], types: Mapping[str, str]) -> None:
        """
        Refuse a key that does not identify the table's rows, or that the events order differently.

        :raises InvalidJobError: with what to do.
        """
        encodings = self.encodings(types)
        for name in key:
            if encodings.get(name) is not Encoding.ALIKE:
                column = self.described.column(name)
                raise InvalidJobError(
                    f"upstream.key: column {name!r} is {column.type if column else 'missing'} in {self.location} and "
                    f"{types[name]} in the events, so the two are not ordered alike; land it with the table's type"
                )
        with self.database.session() as connection:
            encoding = catalog.server(connection).encoding
        require_key(self.location, self.described, key, types, encoding)

    def sample_keys(self, order: KeyOrder, most: int) -> Sequence[Position]:
        """Return keys that divide the rows into parts of about the same size, in key order."""
        with self.database.session() as connection:
            return sampled_keys(connection, self.described, order, most)

    def first_rows(self, order: KeyOrder, covered: KeyRange, rows: int) -> KeyRange:
        """Return the first part of a range of keys that has so many rows, or the range itself if it has no more."""
        with self.database.session() as connection:
            return first_rows(connection, self.described, order, covered, rows)

    def rows_in(self, order: KeyOrder, covered: KeyRange) -> int:
        """Count the rows in a range of keys."""
        with self.database.session() as connection:
            return rows_in(connection, self.described, order, covered)

    def pinned_for(self, used: Collection[str]) -> dict[str, str]:
        """Return what a job pins: what each used column is, and what the catalog says about the table."""
        with self.database.session() as connection:
            identities = pinned_identities(column_identities(connection, self.described.oid), frozenset(used))
            look = TableLook.now(connection, self.described.oid)
        columns = {f"{_COLUMN}{name}": identity for name, identity in identities.items()}
        return {**columns, _LOOK: json.dumps({"over_before": look.over_before, "files": look.files})}

    def problems(self, pinned: Mapping[str, str]) -> list[str]:
        """
        Return what became of the used columns since the job was created.

        :param pinned: as :meth:`pinned_for` returned it.
        """
        identities = {name.removeprefix(_COLUMN): text for name, text in pinned.items() if name.startswith(_COLUMN)}
        then = json.loads(pinned[_LOOK])
        files = {int(oid): file for oid, file in then["files"].items()}
        with self.database.session() as connection:
            table = catalog.describe_table(connection, self._definition.table).oid
            if found := identity_problems(identities, column_identities(connection, table)):
                return found
            lost = lost_values(
                connection,
                TableLook.now(connection, table),
                last_look=then["over_before"],
                file_at_last_look=files.get,
            )
        return [f"column {name} was written anew by ALTER TABLE, without events" for name in lost if name in identities]

    def server_run(self, used: Collection[str]) -> str:
        """
        Return what identifies the server's run since it last recovered from a crash, and the table's columns and files.

        An empty text of a standby: it has only what is on its primary's disk.

        :param used: the columns that count.
        """
        with self.database.session() as connection:
            return "" if catalog.server(connection).is_standby else self._run(connection, used)

    def _run(self, connection: Connection, used: Collection[str]) -> str:
        table = catalog.describe_table(connection, self._definition.table).oid
        return f"{catalog.server_run(connection)}{_VERSION}{TableLook.now(connection, table).version(used)}"

    def has_kept_all(self, server_run: str) -> bool:
        """
        Wait until all that can be seen now is on the server's disk.

        :param server_run: of an earlier moment; empty if nothing could be lost since then.
        :returns: ``False`` if the server has crashed since then, so that it may have lost what could be seen.
        :raises DatabaseUnavailableError: if waiting takes long, or the server crashes meanwhile.
        """
        if not server_run:
            return True
        with self.database.session() as connection:
            if catalog.server_run(connection) != server_run.partition(_VERSION)[0]:
                return False
            wait_until_on_disk(connection)
        return True

    def is_as_read(self, server_run: str, used: Collection[str]) -> bool:
        """
        Return whether columns and files are those at an earlier moment; otherwise readers may have seen another table.

        :param server_run: of the earlier moment.
        :param used: as for :meth:`server_run`.
        """
        version = server_run.partition(_VERSION)[2]
        return not version or self.server_run(used).partition(_VERSION)[2] == version

    def unseen_transactions(self) -> UnseenTransactions:
        """Return the transactions that a reader that begins now does not see."""
        with self.database.session() as connection:
            return unseen_transactions(connection)
