"""
A Delta table of files: its versions, its log, and the newest epoch of each transaction id.

A write is staged on one version and committed on another. What Delta guarantees is modelled, and no more:

- a merge removes rows by their **place**, a file and the row's number in it, so it is refused if another commit has
  rewritten a file that it read meanwhile;
- an append reads nothing and is never refused;
- a compaction writes the rows of several files into a new one; that changes no row, but every place;
- a commit whose transaction the log has already is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")

Place = tuple[int, int]
ENDED = 10**9
"""The epoch of a transaction that is used up."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit in the log. Its version is its number in the log, plus one."""

    part: str
    epoch: int
    changes_rows: bool


@dataclass(frozen=True, slots=True)
class Staged(Generic[R]):
    """A write that was computed and is not committed."""

    version: int
    removed: frozenset[Place]
    added: tuple[R, ...]
    reads: bool


class Table(Generic[R]):
    """A table; every version stays readable."""

    def __init__(self, rows: Iterable[R] = ()) -> None:
        rows = tuple(rows)
        self._files: list[dict[int, tuple[R | None, ...]]] = [{0: rows} if rows else {}]
        self._next_file = 1
        self.log: list[Commit] = []
        self.transactions: dict[str, int] = {}

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.log)

    def rows(self, version: int = -1) -> list[R]:
        """Return the rows of a version."""
        return [row for _, row in self._placed(version)]

    def has(self, part: str, epoch: int) -> bool:
        """Return whether a write is in the log, or one of a later epoch."""
        return self.transactions.get(part, 0) >= epoch

    def appended(self, rows: Iterable[R]) -> Staged[R]:
        """Stage an append."""
        return Staged(self.version, frozenset(), tuple(rows), reads=False)

    def merged(self, is_removed: Callable[[R], bool], rows: Iterable[R]) -> Staged[R]:
        """Stage a merge. A row that would be replaced by an equal one stays where it is."""
        added, removed = list(rows), set()
        for place, row in self._placed(-1):
            if is_removed(row):
                if row in added:
                    added.remove(row)
                else:
                    removed.add(place)
        return Staged(self.version, frozenset(removed), tuple(added), reads=True)

    def commit(
        self, staged: Staged[R], part: str, epoch: int, *, has_transaction: bool = True, checks_files: bool = True
    ) -> bool:
        """Commit a write once. Return False if it has to be staged again."""
        if has_transaction and self.has(part, epoch):
            return True
        now, then = self._files[-1], self._files[staged.version]
        if staged.reads and checks_files and any(now.get(file) is not rows for file, rows in then.items()):
            return False
        files = {file: self._without(file, rows, staged.removed) for file, rows in now.items()}
        if staged.added:
            files[self._next_file] = staged.added
            self._next_file += 1
        if has_transaction:
            self.transactions[part] = epoch
        self._log(files, Commit(part, epoch, bool(staged.removed or staged.added)))
        return True

    def compact(self, rewrite: Callable[[list[R]], list[R]] = list, *, first: int = 0) -> None:
        """Write the rows of all files from ``first`` on into one new file."""
        kept = {file: rows for file, rows in self._files[-1].items() if file < first}
        compacted = [row for (file, _), row in self._placed(-1) if file >= first]
        self._log(kept | {self._next_file: tuple(rewrite(compacted))}, Commit("compaction", 0, changes_rows=False))
        self._next_file += 1

    def replace(self, rows: Iterable[R], part: str, *, ended: Iterable[str]) -> None:
        """Replace all rows in one commit, and use up the transactions that are to end."""
        self.transactions |= dict.fromkeys(ended, ENDED)
        self._log({self._next_file: tuple(rows)}, Commit(part, 1, changes_rows=True))
        self._next_file += 1

    def _placed(self, version: int) -> list[tuple[Place, R]]:
        files = self._files[version].items()
        return [((file, n), row) for file, rows in files for n, row in enumerate(rows) if row is not None]

    def _without(self, file: int, rows: tuple[R | None, ...], removed: frozenset[Place]) -> tuple[R | None, ...]:
        if not any((file, n) in removed for n in range(len(rows))):
            return rows
        return tuple(None if (file, n) in removed else row for n, row in enumerate(rows))

    def _log(self, files: dict[int, tuple[R | None, ...]], commit: Commit) -> None:
        self._files.append(files)
        self.log.append(commit)
