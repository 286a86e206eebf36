"""Rows that changes move between groups or matches, all of which are removed at times, and which come back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from faults.shapes.case import Case, Column
from faults.shapes.rows import Change, Row, Rows


class MovingRows(Rows):
    """
    Draws the rows and changes of one upstream.

    :param case: the upstream.
    :param value: draws a value of a column; many rows have to get the same ones.
    """

    def __init__(self, case: Case, value: Callable[[random.Random, Column], Any]) -> None:
        super().__init__(case, value)
        self._chance = random.Random(case.rows_seed)
        self._written = case.written
        self._kept = tuple(i for i in range(len(case.written)) if i not in case.key_indices)
        self._key_indices = case.key_indices
        self._gone: list[Row] = []

    def change(self, kind: str, before: tuple[Row, ...]) -> Change:
        """Return a change of some rows."""
        match kind:
            case "column":
                change = self._column_changed(before)
            case "empty":
                change = Change(before, (), tuple((row, None) for row in before))
            case "return":
                change = self._returned(before)
            case _:
                change = super().change(kind, before)
        self._gone += [old for old, new in change.pairs if old is not None and new is None]
        return change

    def _column_changed(self, before: tuple[Row, ...]) -> Change:
        """Give some rows the value that another row has in one column; mostly, that moves them to another group."""
        if not before:
            return Change(before, before, ())
        column = self._chance.choice(self._kept)
        chosen = set(self._chance.sample(range(len(before)), min(len(before), self._chance.randint(1, 8))))
        pairs = []
        for index in sorted(chosen):
            value = self._chance.choice(before)[column]
            if not self._written[column].is_required:
                value = self._chance.choice((value, None))
            new = tuple(value if i == column else old for i, old in enumerate(before[index]))
            pairs.append((before[index], new))
        rest = tuple(row for index, row in enumerate(before) if index not in chosen)
        return Change(before, (*rest, *(new for _, new in pairs)), tuple(pairs))

    def _returned(self, before: tuple[Row, ...]) -> Change:
        """Bring removed rows back, under the keys that they had."""
        taken = {self._key_of(row) for row in before}
        back: dict[str, Row] = {self._key_of(row): row for row in self._gone if self._key_of(row) not in taken}
        self._gone.clear()
        return Change(before, (*before, *back.values()), tuple((None, row) for row in back.values()))

    def _key_of(self, row: Row) -> str:
        return repr([row[i] for i in self._key_indices])
