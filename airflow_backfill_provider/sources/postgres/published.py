"""
What a publication has, and whether that is what it had at the last landing.

While a table is not published, the slot does not return its changes, and says nothing about it. A table that left the
publication and came back has another entry there; a publication that was altered or made anew has another row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill_provider.sources.shared.change_log.changes import OF_ALL_TABLES, LoggedKind
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection
from airflow_backfill_provider.sources.shared.postgresql.published_schemas import with_published_schemas

# ALTER PUBLICATION … SET (publish = …) writes the row again, in a transaction of its own; ADD TABLE does not.
_PUBLICATION = "SELECT oid::bigint, xmin::text FROM pg_publication WHERE pubname = %s"

# A table leaves a schema, and comes back, with another row about what it depends on.
_ENTRIES = """
SELECT prrelid::bigint, oid::bigint::text FROM pg_publication_rel WHERE prpubid = %s::bigint::oid
UNION ALL
SELECT c.oid::bigint, concat_ws(' ', s.oid, d.xmin)
FROM {published_schemas} s
JOIN pg_class c ON c.relnamespace = s.pnnspid AND c.relkind IN ('r', 'p')
LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.objsubid = 0
    AND d.refclassid = 'pg_namespace'::regclass AND d.deptype = 'n'
WHERE s.pnpubid = %s::bigint::oid AND NOT EXISTS (
    SELECT FROM pg_publication_rel r WHERE r.prpubid = s.pnpubid AND r.prrelid = c.oid)
"""

_IDENTITY_BYTES = 7
"""As many as fit into a signed number of 64 bits, and one less."""


@dataclass(frozen=True, slots=True)
class Published:
    """
    What a publication has, as the database's catalog says.

    :param publication: its name.
    :param identities: what identifies the publication, and the entry of each table that it names, by the table's id in
        the change log; nothing if it is gone.
    """

    publication: str
    identities: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def now(cls, connection: Connection, publication: str) -> Published:
        """Return what a publication has now."""
        row = connection.execute(_PUBLICATION, [publication]).fetchone()
        if row is None:
            return cls(publication)
        query = with_published_schemas(_ENTRIES, connection.info.server_version)
        entries = connection.execute(query, [row[0], row[0]]).fetchall()
        return cls(
            publication,
            {OF_ALL_TABLES: _identity(*row), **{str(table): _identity(entry) for table, entry in entries}},
        )

    @property
    def tables(self) -> list[int]:
        """The oids of the tables that the publication names."""
        return [int(name) for name in self.identities if name != OF_ALL_TABLES]

    def differs_from(self, other: Published, table: str) -> bool:
        """Return whether a table is not published in the same way."""
        names = (OF_ALL_TABLES, table)
        return [self.identities.get(name) for name in names] != [other.identities.get(name) for name in names]

    def news(self, known: Callable[[str], int | None]) -> dict[str, int]:
        """
        Return the identities that are not the known ones.

        :param known: returns what the change log has of a name; ``None`` if it has nothing.
        """
        return {name: identity for name, identity in self.identities.items() if known(name) != identity}

    def differences(self, known: Callable[[str], int | None]) -> Iterator[dict[str, Any]]:
        """
        Yield the fields of a row for whatever was published, and is published anew.

        :param known: as for :meth:`news`. What is not known was not published before.
        """
        for name in self.news(known):
            if known(name) is None:
                continue
            if name == OF_ALL_TABLES:
                text = (
                    f"changes that publication {self.publication} may have left out, because it was altered or created "
                    "again"
                )
                yield {"table": name, "kind": LoggedKind.GAP, "new": {"text": text}}
            else:
                text = f"changes while the table was not in publication {self.publication}, to which it was added again"
                yield {"table": name, "kind": LoggedKind.PART_REMOVED, "new": {"text": text}}


def _identity(*parts: object) -> int:
    """Return a number that identifies some parts."""
    text = " ".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:_IDENTITY_BYTES])
