"""Rows of an upstream of groups, and changes that move them between groups, empty groups, and bring rows back."""

from __future__ import annotations

import random

from faults.groups.tables import Table, values_of
from faults.shapes.case import Case
from faults.shapes.rows import Change, Row, Rows


class GroupedRows(Rows):
    """
    Draws the rows and changes of one case.

    :param case: the upstream.
    :param table: its columns, by what queries do with them.
    """

    def __init__(self, case: Case, table: Table) -> None:
        super().__init__(case, values_of(table))
        self._chance = random.Random(case.rows_seed)
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
            value = self._chance.choice((self._chance.choice(before)[column], None))
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
