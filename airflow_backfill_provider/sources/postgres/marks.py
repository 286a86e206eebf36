"""
Marks: messages that this package writes into the database's log, to know that everything before them is landed.

Whoever may connect to the database may write messages, with any prefix. So each mark is signed with a secret of the
change log, and what is not signed is nobody's mark.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

MARK_PREFIX = "airflow_backfill"
"""The prefix of the logical messages that this package writes into the database's log."""

BEGIN = "begin"
"""The text of the mark at a slot's beginning. Nobody asks for it, so it needs no signature."""


@dataclass(frozen=True, slots=True)
class Marks:
    """
    The marks of one change log.

    :param secret: the log's secret.
    """

    secret: str

    def text(self, name: str) -> str:
        """Return the text of the mark with a name."""
        return f"{name} {self._signature(name)}"

    def read(self, content: bytes) -> str | None:
        """Return the text of a message with the marks' prefix; ``None`` if it is somebody else's."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return None
        if text == BEGIN:
            return text
        name, _, signature = text.rpartition(" ")
        return text if hmac.compare_digest(signature.encode(), self._signature(name).encode()) else None

    def _signature(self, name: str) -> str:
        return hmac.new(self.secret.encode(), name.encode(), hashlib.sha256).hexdigest()
