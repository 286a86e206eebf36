"""
The table as of any position of the database's log, rebuilt in plain Python.

Triggers write each change into a table of their own, in the same transaction. A second replication slot returns these
records with the position of their transaction's commit. Nothing of the package is used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from faults.cdc.drawing import DrawnTable
from faults.cdc.kinds import read_json

Connection = psycopg.Connection[tuple[Any, ...]]

SLOT = "audit"
_TRUNCATE = "T"

Row = tuple[Any, ...]
"""What each job's view has for a row of the table, or null."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """
    A change.

    :param kind: the first letter of the statement.
    :param old: the old key; ``None`` if there was none.
    :param new: the new key, and with it what each job's view has.
    """

    kind: str
    old: tuple[str, ...] | None
    new: tuple[str, ...] | None
    row: Row


def record(connection: Connection, table: DrawnTable) -> None:
    """Record all changes of the table from now on."""

    def key(row: str) -> str:
        return f"json_build_array({', '.join(table.written_key(row))})::text"

    rows = [table.in_database(job, "NEW.") for job in table.jobs]
    connection.execute(
        "CREATE TABLE audit (number bigserial PRIMARY KEY, kind text, old_key text, new_key text, "
        + ", ".join(f"row{number} text" for number in range(len(rows)))
        + ")"
    )
    connection.execute(
        f"""
        CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql
        SET TimeZone TO 'UTC' SET DateStyle TO 'ISO' SET IntervalStyle TO 'iso_8601' SET extra_float_digits TO '1'
        AS $body$ BEGIN
        IF TG_OP = 'TRUNCATE' THEN
            INSERT INTO audit (kind) VALUES ('T');
        ELSIF TG_OP = 'DELETE' THEN
            INSERT INTO audit (kind, old_key) VALUES ('D', {key("OLD.")});
        ELSIF TG_OP = 'INSERT' THEN
            INSERT INTO audit VALUES (DEFAULT, 'I', NULL, {key("NEW.")}, {", ".join(rows)});
        ELSE
            INSERT INTO audit VALUES (DEFAULT, 'U', {key("OLD.")}, {key("NEW.")}, {", ".join(rows)});
        END IF;
        RETURN NULL; END $body$
        """
    )
    connection.execute(
        "CREATE TRIGGER audit_rows AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION audit()"
    )
    connection.execute(
        "CREATE TRIGGER audit_truncate AFTER TRUNCATE ON orders FOR EACH STATEMENT EXECUTE FUNCTION audit()"
    )
    connection.execute("CREATE PUBLICATION audit FOR TABLE audit")


@dataclass(slots=True)
class History:
    """
    All committed changes, in the order of their commits.

    :param slot: the name of the slot.
    """

    slot: str
    transactions: list[tuple[int, list[Recorded]]] = field(default_factory=list)

    def read(self, connection: Connection) -> None:
        """Read what was committed since the last time."""
        known = self.transactions[-1][0] if self.transactions else -1
        found = connection.execute(
            "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1', "
            "'publication_names', 'audit')",
            [self.slot],
            binary=True,
        )
        commit, changes = 0, list[Recorded]()
        for (message,) in found:
            match message[:1]:
                case b"B":
                    (commit,) = struct.unpack_from("!Q", message, 1)
                    changes = []
                case b"I":
                    changes.append(_recorded(list(_texts(message))))
                case b"C" if commit > known:
                    self.transactions.append((commit, changes))

    def rows(self, before: int | None = None) -> dict[tuple[str, ...], Row]:
        """
        Return the rows by key.

        :param before: leave out transactions whose commit begins here or later.
        """
        rows: dict[tuple[str, ...], Row] = {}
        for commit, changes in self.transactions:
            if before is not None and commit >= before:
                break
            _apply(changes, rows)
        return rows

    def states(self) -> Iterator[tuple[int, dict[tuple[str, ...], Row]]]:
        """Yield where each commit begins, and the rows then; the same dictionary each time."""
        rows: dict[tuple[str, ...], Row] = {}
        for commit, changes in self.transactions:
            _apply(changes, rows)
            yield commit, rows


def _apply(changes: list[Recorded], rows: dict[tuple[str, ...], Row]) -> None:
    """Make the changes of a transaction."""
    for change in changes:
        if change.kind == _TRUNCATE:
            rows.clear()
        if change.old is not None:
            rows.pop(change.old)
        if change.new is not None:
            assert change.new not in rows, f"two rows with key {change.new}"
            rows[change.new] = change.row


def _texts(message: bytes) -> Iterator[str | None]:
    """Yield the values of an inserted row."""
    (count,) = struct.unpack_from("!H", message, 6)
    at = 8
    for _ in range(count):
        kind = message[at : at + 1]
        at += 1
        if kind == b"n":
            yield None
            continue
        (size,) = struct.unpack_from("!I", message, at)
        yield message[at + 4 : at + 4 + size].decode()
        at += 4 + size


def _recorded(texts: list[str | None]) -> Recorded:
    _, kind, old, new, *rows = texts
    old_key, new_key = read_json(old), read_json(new)
    return Recorded(
        kind=str(kind),
        old=None if old_key is None else tuple(old_key),
        new=None if new_key is None else tuple(new_key),
        row=tuple(map(read_json, rows)),
    )
