"""A PostgreSQL table that is a job's upstream, as it is now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Self

from psycopg import sql

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    DatabaseRefusedError,
    InvalidJobError,
    UpstreamError,
)
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.sources.postgres.definition import PostgresUpstream
from airflow_backfill_provider.sources.shared.postgresql.catalog import DescribedTable
from airflow_backfill_provider.sources.shared.postgresql.column_identity import (
    ColumnIdentity,
    identity_problems,
    pinned_identities,
)
from airflow_backfill_provider.sources.shared.postgresql.table_key import require_key

_WITHOUT_ENCODING = frozenset({"SQL_ASCII", "MULE_INTERNAL"})
"""Encodings of databases that the server converts to no other one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDescription(UpstreamDescription):
    """
    A table.

    :param table: the table, as the catalog has it.
    :param encoding: the encoding of the database.
    :param upstream: the job's definition of it.
    :param identities: what each column is.
    :param unpublished: why the slot does not return its changes; an empty text if it does.
    """

    table: DescribedTable
    encoding: str
    upstream: PostgresUpstream
    identities: Mapping[str, ColumnIdentity] = field(default_factory=dict)
    unpublished: str = ""

    @classmethod
    def of(
        cls,
        location: str,
        offset: Offset,
        *,
        table_id: str,
        table: DescribedTable,
        encoding: str,
        upstream: PostgresUpstream,
        identities: Mapping[str, ColumnIdentity] | None = None,
        unpublished: str = "",
    ) -> Self:
        """Return the description; a column without a counterpart has its PostgreSQL type in angle brackets."""
        as_text = set(upstream.as_text)
        types = {
            column.name: "string" if column.name in as_text else (column.type.delta_type or f"<{column.type}>")
            for column in table.columns
        }
        return cls(
            location=location,
            offset=offset,
            table_id=table_id,
            types=types,
            table=table,
            encoding=encoding,
            upstream=upstream,
            identities=identities or {},
            unpublished=unpublished,
        )

    def pinned_for(self, used: Collection[str]) -> Mapping[str, str]:
        """Return what each used column is."""
        return pinned_identities(self.identities, frozenset(used))

    def differences_from(self, upstream: ResolvedUpstream) -> list[str]:
        """Return how the used columns differ from those at the job's creation, also where their types are the same."""
        found = UpstreamDescription.differences_from(self, upstream)
        return found or identity_problems(upstream.pinned, self.identities)

    def require_as_created(self, upstream: ResolvedUpstream) -> None:
        """
        Refuse also a table whose changes are no longer published.

        :raises ChangeFeedGapError: with what to do.
        """
        UpstreamDescription.require_as_created(self, upstream)
        if self.unpublished:
            raise ChangeFeedGapError(self.unpublished)

    def require_usable(self) -> None:
        """
        Refuse a table whose changes cannot be found in a view.

        :raises InvalidJobError: if the key does not identify rows.
        :raises UpstreamError: if the log does not identify old rows by the key; with the statement to run.
        """
        key = [column.column for column in self.upstream.key]
        if not set(key) <= set(self.types):
            return  # a missing column has a message of its own
        require_key(self.location, self.table, key, self.types, self.encoding)
        self._require_identity(key)

    def require_columns(self, used: Collection[str]) -> None:
        """
        Refuse columns that cannot be read exactly, or whose values the log does not have.

        :param used: the columns that the job uses.
        :raises InvalidJobError: with the columns.
        :raises DatabaseRefusedError: if the login may not read one; with the statement to run.
        """
        if self.encoding in _WITHOUT_ENCODING:
            raise InvalidJobError(
                f"upstream.postgres.connection: the database of {self.location} is encoded in {self.encoding}, which "
                "says nothing about what bytes mean, so its texts cannot be read; copy it into a database in UTF8 "
                "(pg_dump --encoding, and pg_restore)"
            )
        for column in self.table.columns:
            if column.name not in used:
                continue
            if self.types[column.name].startswith("<"):
                raise InvalidJobError(
                    f"query: column {column.name!r} of {self.location} has type {column.type}, which has no "
                    f"counterpart; leave it out, or name it in upstream.postgres.as_text to read it as text"
                )
            if not column.readable:
                unreadable = [found.name for found in self.table.columns if found.name in used and not found.readable]
                raise DatabaseRefusedError(
                    f"the login {self.table.login} may not read column {', '.join(unreadable)} of {self.location}; "
                    f"run: {self._grant(unreadable)}"
                )
            if column.generated:
                raise InvalidJobError(
                    f"query: column {column.name!r} of {self.location} is generated, and PostgreSQL's log has no such "
                    "columns; write its expression in the query instead"
                )

    def _grant(self, columns: list[str]) -> str:
        names = ", ".join(map(_quoted, columns))
        return f"GRANT SELECT ({names}) ON {self.upstream.table} TO {_quoted(self.table.login)}"

    def _require_identity(self, key: list[str]) -> None:
        """Refuse a table whose log does not say which row was changed."""
        if set(key) <= set(self.table.identity_key):
            return
        raise UpstreamError(
            f"{self.location}: the log identifies changed rows by "
            f"{', '.join(self.table.identity_key) or 'nothing'}, not by {', '.join(key)}; run: ALTER TABLE "
            f"{self.upstream.table} REPLICA IDENTITY FULL, or REPLICA IDENTITY USING INDEX with the key's index"
        )


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()
