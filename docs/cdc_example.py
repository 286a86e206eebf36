"""
Play the worked example of ``cdc`` in the concepts, and print its tables.

``python -m docs.cdc_example --write`` puts them into the page. It starts neither Spark nor a server. The package's own
functions make the change log, choose what is read ahead, plan the chunks and move the state; what Spark does with rows
is written again in plain Python. After each epoch, the view is compared with the query over the table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.scan.next_chunk import choose_parts
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import Completed, InProgress
from airflow_backfill_provider.sources.shared.postgresql.lsn import lsn_of
from airflow_backfill_provider.strategies.cdc.files import Reading
from airflow_backfill_provider.strategies.cdc.next_chunk import ranges_to_read, rows_left
from airflow_backfill_provider.strategies.no_shuffle_scan import NoShuffleScan
from docs.example_change_log import ExampleChangeLog, Image, net, settled
from docs.example_database import (
    BEGINNING,
    TRUNCATE,
    ExampleDatabase,
    Transaction,
    delete,
    insert,
    move,
    update,
)
from docs.generated import main, table

PAGES = (Path(__file__).parent / "concepts" / "examples" / "cdc.md",)
ORDER = KeyOrder((KeyField(name="order_id", type="long"),))
FIRST_ROWS = {10: 5, 20: 7, 30: 4, 40: 9, 50: 3, 60: 8, 70: 6, 80: 2}
RATE_LIMIT = 3


@dataclass(frozen=True)
class Attempt:
    """
    An attempt of an epoch's reading ahead.

    :param before: transactions that are committed right before a connection reads, by its number.
    :param dies_before: transactions that are committed after the attempt died; ``None`` if it lives.
    """

    before: Mapping[int, Sequence[Transaction]] = field(default_factory=dict)
    dies_before: Sequence[Transaction] | None = None


@dataclass(frozen=True)
class Played:
    """
    An epoch of the example.

    :param before: transactions that are committed before it is requested.
    """

    before: Sequence[Transaction] = ()
    attempts: Sequence[Attempt] = (Attempt(),)


EPOCHS = (
    Played(attempts=[Attempt(before={2: [[update(10, 6), update(30, 9)]]})]),
    Played(
        before=[[delete(20)], [move(70, 15, 6)]],
        attempts=[Attempt(dies_before=[[update(40, 1)]]), Attempt()],
    ),
    Played(before=[[update(50, 4)], [update(10, 7), update(60, 5)], [move(30, 55, 9)]]),
    Played(before=[[insert(90, 4)]]),
    Played(before=[[TRUNCATE], [insert(5, 1)]]),
)


@dataclass(frozen=True)
class Found:
    """Rows that one connection read."""

    connection: int
    covered: KeyRange
    position: int
    rows: Mapping[int, int]

    def lines(self) -> Iterator[tuple[object, ...]]:
        """Yield a line of a table for each row; one line if there is none."""
        where = (self.connection, _words(self.covered), self.position)
        yield from ((*where, key, amount) for key, amount in sorted(self.rows.items()))
        if not self.rows:
            yield (*where, "none", "")


class Example(KeyIndex):
    """The database, the tables of a job, and its epochs. It is also the index of the keys that were read ahead."""

    def __init__(self) -> None:
        self.database = ExampleDatabase(FIRST_ROWS)
        self.sample: Sequence[Position] = [(key,) for key in FIRST_ROWS]
        self.scan = NoShuffleScan(ORDER, vnode_count=2)
        self.state = self.scan.initial(0)
        self.view: dict[int, int] = {}
        self.log = ExampleChangeLog(self.database)
        self.reached = BEGINNING
        self.readings: list[Reading] = []
        self.read_ahead: dict[int, list[Found]] = {}
        self.blocks: dict[str, str] = {}

    def play(self) -> dict[str, str]:
        """Play all epochs and return the blocks of the page."""
        self.blocks["cdc upstream"] = table(("order_id", "amount"), sorted(FIRST_ROWS.items()))
        self.database.mark("begin")
        for number, epoch in enumerate(EPOCHS, start=1):
            self._epoch(number, epoch)
        self.blocks["cdc change log"] = self.log.as_table()
        return self.blocks

    # -------------------------------------------------------------------------------------------------- epochs

    def _epoch(self, number: int, epoch: Played) -> None:
        name = f"cdc epoch {number}"
        self._commit(f"{name} statements", epoch.before)
        after, up_to = self.reached, self.log.land()
        read_before = self.scan.read(self.state)
        chunk = self._chunk()
        self.blocks[f"{name} barrier"] = _barrier(number, (after, up_to), read_before, chunk)
        images = self.log.images(after, up_to)
        changes = net([image for image in images if _is_in(read_before, image.key)])
        if self.log.is_truncated(after, up_to):
            self.view.clear()
        self._write(changes)
        rows: dict[int, int] = {}
        if chunk:
            lower = min(
                lsn_of(reading.changes_after) for reading in self.readings if not reading.ends_by(chunk[0].after, ORDER)
            )
            if "cdc choices" not in self.blocks:
                self.blocks["cdc choices"] = self._choices(chunk[0], lower, up_to)
            rows = self._settle(name, chunk[0], self.log.images(lower, up_to))
            self.view.update(rows)
            self.blocks[f"{name} changes"] = _fates(images, read_before, chunk, lower)
        self.state = self.scan.advanced(self.state, epoch=number, ranges=chunk, rows={0: len(rows)})
        self.reached = up_to
        self._read(number, chunk or read_before, epoch.attempts)
        self._require_truth()
        self.blocks[f"{name} result"] = self._result()

    def _chunk(self) -> tuple[KeyRange, ...]:
        unread = self.scan.unread(self.state)
        if not unread or not self.readings:
            return ()
        _require(
            all(self.log.mark(_mark_of(reading.epoch)) is not None for reading in self.readings), "marks are landed"
        )
        unread_here = KeyRange(unread[0].after, self.readings[-1].covered.up_to)
        (part,) = choose_parts(
            self._statistics(), unread=[[unread_here]], rate_limit=RATE_LIMIT, order=ORDER, keys=self
        )
        return tuple(part.ranges)

    def _settle(self, name: str, chunk: KeyRange, images: Sequence[Image]) -> dict[int, int]:
        """Return a chunk's rows, and make the table that says where each comes from."""
        read = self._rows_read(chunk)
        last = net([image for image in images if chunk.contains((image.key,), ORDER)])
        rows = settled(read, last)
        lines = []
        for key in sorted({*read, *last}):
            image = last.get(key)
            change = "none" if image is None else f"{image.outcome} at {image.offset}"
            lines.append((key, read.get(key, "not found"), change, rows.get(key, "no row")))
        self.blocks[f"{name} settled"] = table(("order_id", "as read", "last change since", "in the chunk"), lines)
        return rows

    def _choices(self, chunk: KeyRange, lower: int, up_to: int) -> str:
        """Return what the first chunk would be, if it had other changes than those from its lower offset on."""
        upper = self.log.mark(_mark_of(self.readings[0].epoch)) or up_to
        read = self._rows_read(chunk)
        lines = []
        for what, after, end in (
            ("none: the rows as they were read", up_to, up_to),
            (f"after the mark: ({upper}, {up_to}]", upper, up_to),
            (f"after the lower offset, in a window that ends before the mark: ({lower}, {lower}]", lower, lower),
            (f"after the lower offset, up to the window's end: ({lower}, {up_to}]", lower, up_to),
        ):
            images = [image for image in self.log.images(after, end) if chunk.contains((image.key,), ORDER)]
            rows = settled(read, net(images))
            truth = {key: amount for key, amount in self.database.rows_at(end).items() if chunk.contains((key,), ORDER)}
            wrong = [
                f"{key} is {rows.get(key, 'missing')}, not {truth.get(key, 'gone')}"
                for key in sorted({*rows, *truth})
                if rows.get(key) != truth.get(key)
            ]
            found = ", ".join(f"{key}: {amount}" for key, amount in sorted(rows.items()))
            lines.append((what, found, end, "; ".join(wrong) or "right"))
        return table(("changes", "the chunk", "as of offset", "outcome"), lines)

    def _write(self, changes: Mapping[int, Image]) -> None:
        for key, image in changes.items():
            if image.amount is None:
                self.view.pop(key, None)
            else:
                self.view[key] = image.amount

    def _require_truth(self) -> None:
        position = self.scan.read(self.state)
        rows = self.database.rows_at(self.reached)
        truth = {key: amount for key, amount in rows.items() if _is_in(position, key)}
        _require(self.view == truth, f"I1: {self.view} is {truth}")

    # ------------------------------------------------------------------------------------------- reading ahead

    def _read(self, number: int, read: Sequence[KeyRange], attempts: Sequence[Attempt]) -> None:
        begin = self.readings[-1].covered.up_to if self.readings else None
        if self.readings and begin is None:
            return
        left = rows_left(self._statistics(), KeyRange(read[-1].up_to if read else None, None), ORDER)
        ranges = ranges_to_read(
            begin=begin,
            within=KeyRange(None, None),
            sample=self.sample,
            rows_of_sample=1,
            rows=RATE_LIMIT - left,
            order=ORDER,
        )
        for attempt_number, attempt in enumerate(attempts, start=1):
            name = f"cdc epoch {number} reading" + (f" {attempt_number}" if len(attempts) > 1 else "")
            lower = self.log.land()
            found = list(self._connections(name, ranges, attempt))
            lines = [line for connection in found for line in connection.lines()]
            self.blocks[name] = (
                table(("connection", "keys", "position of the log", "order_id", "amount"), lines)
                + f"\nThe lower offset is {lower}.\n"
            )
            if attempt.dies_before is not None:
                self._commit(f"{name} statements", attempt.dies_before)
                continue
            self.read_ahead[number] = found
            self.readings.append(
                Reading(
                    epoch=number,
                    covered=KeyRange(ranges[0].after, ranges[-1].up_to),
                    changes_after=Offset(lower),
                    server_run="",
                )
            )
            self.database.mark(_mark_of(number))

    def _connections(self, name: str, ranges: Sequence[KeyRange], attempt: Attempt) -> Iterator[Found]:
        for connection, covered in enumerate(ranges):
            if connection in attempt.before:
                self._commit(f"{name} statements", attempt.before[connection])
            rows = {key: amount for key, amount in self.database.rows.items() if covered.contains((key,), ORDER)}
            yield Found(connection, covered, self.database.position, rows)

    def _rows_read(self, within: KeyRange) -> dict[int, int]:
        """Return the rows that were read ahead in a range."""
        return {
            key: amount
            for found in self.read_ahead.values()
            for connection in found
            for key, amount in connection.rows.items()
            if within.contains((key,), ORDER)
        }

    def _statistics(self) -> list[FileStatistics]:
        """Return the files of the rows that were read ahead: one for each connection that found any."""
        return [
            FileStatistics(
                path=f"{epoch}/{connection.connection}",
                row_count=len(connection.rows),
                lower=(min(connection.rows),),
                upper=(max(connection.rows),),
            )
            for epoch, found in self.read_ahead.items()
            for connection in found
            if connection.rows
        ]

    def count(self, file: FileStatistics, within: KeyRange) -> int:
        """Return the number of a file's keys in a range."""
        return sum(within.contains((key,), ORDER) for key in self._keys([file]))

    def nth(self, files: Sequence[FileStatistics], within: KeyRange, n: int) -> Position | None:
        """Return the n-th key of files in a range."""
        keys = sorted(key for key in self._keys(files) if within.contains((key,), ORDER))
        return (keys[n - 1],) if n <= len(keys) else None

    def _keys(self, files: Sequence[FileStatistics]) -> Iterator[int]:
        for file in files:
            epoch, connection = map(int, file.path.split("/"))
            yield from self.read_ahead[epoch][connection].rows

    # ---------------------------------------------------------------------------------------------- change log

    def _commit(self, name: str, transactions: Sequence[Transaction]) -> None:
        if not transactions:
            return
        lines = []
        for transaction in transactions:
            offset = self.database.commit(transaction)
            statements = [write.sql for write in transaction]
            if len(statements) > 1:
                statements = ["BEGIN", *statements, "COMMIT"]
            lines += [f"{statement};\n" for statement in statements[:-1]]
            lines.append(f"{statements[-1]};  -- offset {offset}\n")
        self.blocks[name] = f"```sql\n{''.join(lines)}```\n"

    def _result(self) -> str:
        state = [
            (
                vnode,
                progress.position[0] if isinstance(progress, InProgress | Completed) and progress.position else None,
                isinstance(progress, Completed),
                progress.row_count,
                self.state.epoch,
            )
            for vnode, progress in enumerate(self.state.vnodes)
        ]
        view = [(key, amount * 100) for key, amount in sorted(self.view.items())]
        return (
            "The state table afterwards:\n\n"
            + table(("vnode", "order_id", "backfill_finished", "row_count", "epoch"), state)
            + "\nThe view afterwards:\n\n"
            + (table(("order_id", "cents"), view) if view else "> no rows\n")
        )


def make() -> dict[str, str]:
    """Return the blocks of the page."""
    return Example().play()


def _mark_of(epoch: int) -> str:
    return f"order_cents/…/{epoch}"


def _is_in(ranges: Sequence[KeyRange], key: int) -> bool:
    return any(covered.contains((key,), ORDER) for covered in ranges)


def _outcome(image: Image) -> str:
    return "removed" if image.amount is None else f"written with {image.amount}"


def _words(covered: KeyRange) -> str:
    after = "from the first row" if covered.after is None else f"after {covered.after[0]}"
    return f"{after} {'to the last row' if covered.up_to is None else f'up to {covered.up_to[0]}'}"


def _barrier(number: int, window: tuple[int, int], read_before: Sequence[KeyRange], chunk: Sequence[KeyRange]) -> str:
    changes = "none: nothing was read yet"
    if read_before:
        end = read_before[0].up_to
        changes = "all" if end is None else f"keys at or before {end[0]}"
    finished = bool(read_before) and read_before[0].up_to is None
    nothing = "none: every vnode is Completed" if finished else "none: nothing was read ahead yet"
    return table(
        ("epoch", "window", "chunk", "changes let through"),
        [(number, f"({window[0]}, {window[1]}]", f"keys {_words(chunk[0])}" if chunk else nothing, changes)],
    )


def _fates(images: Sequence[Image], read_before: Sequence[KeyRange], chunk: Sequence[KeyRange], lower: int) -> str:
    last_before = net([image for image in images if _is_in(read_before, image.key)])
    last_here = net([image for image in images if _is_in(chunk, image.key)])

    def fate(image: Image) -> str:
        if _is_in(read_before, image.key):
            return "the view gets it" if last_before[image.key] is image else "netted: a later change wins"
        if not _is_in(chunk, image.key):
            return "dropped: the key belongs to a later chunk"
        if image.offset <= lower:
            return f"not needed: the row was read after {lower}"
        return "goes into this chunk" if last_here[image.key] is image else "netted: a later change wins"

    return table(
        ("offset", "change", "order_id", "outcome", "what becomes of it"),
        ((image.offset, image.kind, image.key, image.outcome, fate(image)) for image in images),
    )


def _require(condition: bool, message: str) -> None:  # noqa: FBT001 - an assertion
    if not condition:
        raise AssertionError(message)


if __name__ == "__main__":
    sys.exit(main(PAGES, make()))
