"""
Numbered migrations of control tables, each from one layout of rows to the next.

A table records its layout. If it is an older one, the next writer first replaces the rows by migrated ones, in one
commit, and a reader migrates the rows that it read. An unknown layout is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import DeltaTable

LAYOUT_PROPERTY = "backfill.layoutVersion"
"""
The property that records a table's layout. A new table has it as a table property, a migrated one as metadata of its
first column, because deltalake can replace rows and columns in one commit, but not table properties.
"""

FIRST_LAYOUT = 2
"""The oldest layout that can be migrated; layout 1 was never released."""

Migration = Callable[[str, pa.Table], pa.Table]
"""
Takes a table's name (``settings``, ``barrier_log``, ``vnode_state…`` or ``verifications``) and its rows without stamps,
and returns the rows in the next layout. Rows of tables that do not change are returned unchanged.
"""


@dataclass(frozen=True, slots=True)
class Migrations:
    """
    The known migrations.

    :param steps: the migrations by the layout that they produce; the first is the one after :data:`FIRST_LAYOUT`.
    """

    steps: Mapping[int, Migration] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse gaps in the numbers."""
        expected = range(FIRST_LAYOUT + 1, FIRST_LAYOUT + 1 + len(self.steps))
        if list(self.steps) != list(expected):
            raise ValueError(f"migrations produce the layouts {list(self.steps)}, but must produce {list(expected)}")

    @property
    def newest(self) -> int:
        """The layout in which tables are written."""
        return FIRST_LAYOUT + len(self.steps)

    def knows(self, layout: str | None) -> bool:
        """Return whether tables with a recorded layout can be read."""
        return layout is not None and layout.isdecimal() and FIRST_LAYOUT <= int(layout) <= self.newest

    def migrated(self, name: str, rows: pa.Table, layout: int) -> pa.Table:
        """Return a table's rows of an older layout in the newest one."""
        for number in range(layout + 1, self.newest + 1):
            rows = self.steps[number](name, rows)
        return rows


MIGRATIONS = Migrations()
"""The migrations of this package. Each change of a layout adds one, with the number of the new layout."""


def layout_of(table: DeltaTable) -> str | None:
    """Return the layout that a table records; ``None`` if it records none."""
    migrated_to = next((column.metadata.get(LAYOUT_PROPERTY) for column in table.schema().fields), None)
    return migrated_to or table.metadata().configuration.get(LAYOUT_PROPERTY)


def with_layout(layout: int, schema: pa.Schema) -> pa.Schema:
    """Return a migrated table's columns; the first one records the layout."""
    first = schema.field(0).with_metadata({LAYOUT_PROPERTY: str(layout)})
    return schema.set(0, first)
