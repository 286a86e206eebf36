"""The change log of a worked example, and the changes of single keys in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_backfill_provider.sources.postgres.logged_changes import logged_changes
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedChange, LoggedKind, Texts
from docs.example_database import BEGINNING, MARKS, ExampleDatabase
from docs.generated import table

_TYPES = {"order_id": "long", "amount": "integer"}


@dataclass(frozen=True)
class Image:
    """
    A row of a key that a transaction wrote, or that it removed.

    :param amount: ``None`` if the row was removed.
    """

    offset: int
    kind: str
    key: int
    amount: int | None

    @property
    def outcome(self) -> str:
        """What the transaction made of the key."""
        return "removed" if self.amount is None else f"written with {self.amount}"


class ExampleChangeLog:
    """
    The change log of a database.

    :param database: the database.
    """

    def __init__(self, database: ExampleDatabase) -> None:
        self.landed_through = BEGINNING
        self._database = database
        self._rows: list[LoggedChange] = []

    def land(self) -> int:
        """Land what the database has, and return the position through which it is landed."""
        messages = self._database.peek(self.landed_through)
        self._rows += logged_changes(messages, lambda _: _TYPES, after=self.landed_through, marks=MARKS)
        self.landed_through = self._database.position
        return self.landed_through

    def images(self, after: int, up_to: int) -> list[Image]:
        """Return what became of keys in a window; an update that changes the key is of two keys."""
        images: list[Image] = []
        for row in self._rows:
            if not after < row.offset <= up_to or row.kind in {LoggedKind.MARK, LoggedKind.COLUMNS}:
                continue
            if row.kind is LoggedKind.TRUNCATE:
                images.clear()
            old, new = _number(row.old, "order_id"), _number(row.new, "order_id")
            if old is not None and old != new:
                images.append(Image(row.offset, row.kind.value, old, None))
            if new is not None:
                images.append(Image(row.offset, row.kind.value, new, _number(row.new, "amount")))
        return images

    def is_truncated(self, after: int, up_to: int) -> bool:
        """Return whether the table was truncated in a window."""
        return any(after < row.offset <= up_to and row.kind is LoggedKind.TRUNCATE for row in self._rows)

    def mark(self, text: str) -> int | None:
        """Return the offset of a mark; ``None`` if it is not landed."""
        return next((row.offset for row in self._rows if row.new == {"text": text}), None)

    def as_table(self) -> str:
        """Return all rows."""

        def texts(values: Texts | None) -> str:
            return "" if values is None else ", ".join(f"{name}: {value}" for name, value in values.items())

        lines = [
            (row.offset, row.number, row.transaction, row.kind.value, texts(row.old), texts(row.new))
            for row in self._rows
        ]
        return table([f"`{name}`" for name in ("offset", "number", "transaction", "kind", "old", "new")], lines)


def net(images: Sequence[Image]) -> dict[int, Image]:
    """Return the last change of each key."""
    return {image.key: image for image in images}


def settled(read: Mapping[int, int], last: Mapping[int, Image]) -> dict[int, int]:
    """Return a chunk's rows: of a key that changed the last change, of any other key the row that was read."""
    written = {key: image.amount for key, image in last.items() if image.amount is not None}
    return {**{key: amount for key, amount in read.items() if key not in last}, **written}


def _number(values: Texts | None, column: str) -> int | None:
    text = None if values is None else values[column]
    return None if text is None else int(text)
