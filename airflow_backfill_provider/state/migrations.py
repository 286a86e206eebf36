"""
Numbered migrations of control tables: how the rows of one layout become those of the next.

A table says which layout its rows have. Where that is an older one, whoever writes to the table first replaces its rows
by migrated ones, in one commit, and whoever only reads migrates what was read. A layout that no migration leads from or
to is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import DeltaTable

LAYOUT_PROPERTY = "backfill.layoutVersion"
"""
Where a table says which layout it has: as a property of the table that was created so, and of its first column since it
was migrated. deltalake replaces rows and columns in one commit, but no property of the table.
"""

FIRST_LAYOUT = 2
"""The oldest layout that is migrated; the one before was never released."""

Migration = Callable[[str, pa.Table], pa.Table]
"""
Takes a table's name (``settings``, ``barrier_log``, ``vnode_state…`` or ``verifications``) and its rows, without
stamps, and returns them as the next layout has them; those of a table that stays as it was, as they are.
"""


@dataclass(frozen=True, slots=True)
class Migrations:
    """
    The known migrations.

    :param steps: each by the layout that it leads to, from the one after :data:`FIRST_LAYOUT` on.
    """

    steps: Mapping[int, Migration] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse gaps between the numbers."""
        expected = range(FIRST_LAYOUT + 1, FIRST_LAYOUT + 1 + len(self.steps))
        if list(self.steps) != list(expected):
            raise ValueError(f"migrations lead to the layouts {list(self.steps)} instead of {list(expected)}")

    @property
    def newest(self) -> int:
        """The layout that tables are written in."""
        return FIRST_LAYOUT + len(self.steps)

    def knows(self, layout: str | None) -> bool:
        """Tell whether a table that says it has a layout can be read."""
        return layout is not None and layout.isdecimal() and FIRST_LAYOUT <= int(layout) <= self.newest

    def migrated(self, name: str, rows: pa.Table, layout: int) -> pa.Table:
        """Return a table's rows of an older layout as the newest one has them."""
        for number in range(layout + 1, self.newest + 1):
            rows = self.steps[number](name, rows)
        return rows


MIGRATIONS = Migrations()
"""
Those of this package. Whoever changes a layout adds one, and the newest layout is its number.
"""


def layout_of(table: DeltaTable) -> str | None:
    """Return what a table says of its layout, ``None`` if nothing."""
    since_migrated = next((column.metadata.get(LAYOUT_PROPERTY) for column in table.schema().fields), None)
    return since_migrated or table.metadata().configuration.get(LAYOUT_PROPERTY)


def said_to_have(layout: int, schema: pa.Schema) -> pa.Schema:
    """Return a migrated table's columns, the first of which says that it is of a layout."""
    first = schema.field(0).with_metadata({LAYOUT_PROPERTY: str(layout)})
    return schema.set(0, first)
