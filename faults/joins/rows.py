"""Rows of tables that are joined, and changes of a whole table at once: renamed, or replaced under the same keys."""

from __future__ import annotations

from faults.groups.rows import MovingRows
from faults.joins.tables import JoinedTable, values_of
from faults.shapes.rows import Change, Row

CHANGES = (
    *("append", "append", "update", "column", "column", "column", "delete", "return", "move", "swap", "mixture"),
    *("mixture", "rewrite", "empty", "rename", "replace"),
)
"""Kinds of changes, each a version of a table."""


class JoinedRows(MovingRows):
    """
    Draws the rows and changes of one table.

    :param table: the table.
    """

    def __init__(self, table: JoinedTable) -> None:
        super().__init__(table.upstream, values_of(table))
        names = {column.name for column in table.values}
        self._named = frozenset(i for i, column in enumerate(table.columns) if column.name in names)

    def change(self, kind: str, before: tuple[Row, ...]) -> Change:
        """Return a change of some rows, or of all."""
        match kind:
            case "rename":
                return self._with_others(before, self._named)
            case "replace":
                return self._with_others(before, frozenset(self._kept))
            case _:
                return super().change(kind, before)

    def _with_others(self, before: tuple[Row, ...], columns: frozenset[int]) -> Change:
        """Give all rows other values in some columns."""
        pairs = []
        for old in before:
            drawn = self._row()
            pairs.append((old, tuple(drawn[i] if i in columns else value for i, value in enumerate(old))))
        return Change(before, tuple(new for _, new in pairs), tuple(pairs))
