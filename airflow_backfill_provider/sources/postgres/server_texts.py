"""
Texts in the encoding of a database, of which some bytes have no counterpart in Unicode.

If a server cannot convert one value, it returns no message at all. So the messages are taken as they are stored, and
the server converts each value by itself. Its conversions are not those of Python, and a value must be the same as in
the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from psycopg import errors

from airflow_backfill_provider.sources.shared.change_log.changes import UNREADABLE
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection

NOT_CONVERTED = (errors.UntranslatableCharacter, errors.CharacterNotInRepertoire)
"""What a server says if it cannot convert a text to the encoding of the session."""

_CONVERTED = "SELECT convert_from(%s, current_setting('server_encoding'))"

_REMEMBERED = 10_000


@dataclass(frozen=True)
class ServerTexts:
    """
    Asks a server for texts.

    :param connection: a session outside of a transaction.
    """

    connection: Connection
    _known: dict[bytes, str] = field(default_factory=dict)

    def text(self, value: bytes) -> str:
        """Return the text of bytes in the database's encoding; :data:`UNREADABLE` if there is none."""
        if value.isascii():
            # The same in every encoding of a server.
            return value.decode()
        if value not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[value] = self._converted(value)
        return self._known[value]

    def _converted(self, value: bytes) -> str:
        try:
            row = self.connection.execute(_CONVERTED, [value]).fetchone()
        except NOT_CONVERTED:
            return UNREADABLE
        return str(row[0]) if row else UNREADABLE
