"""
How joins are arranged by the units of groups: each row of a lead is there once in every unit that it has a part in.

A chunk has whole units. Their leads come from the arrangement, and are joined with the dimensions as of the chunk. A
lead of a fan-out may have a part in several units, so the chunk takes only those joined rows that are of its own units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tests.model.groups_queries import GroupQuery, Unit
from tests.model.groups_rows import Images, Sale
from tests.model.joins_queries import Joined
from tests.model.joins_tables import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranging:
    """The rules; each default is what keeps an invariant, unless the scheme is another one."""

    of: Literal["leads by unit", "joined rows"] = "leads by unit"
    lead_is_known_by: Literal["unit and key", "key"] = "unit and key"
    left_units: Literal["have tombstones", "keep the lead"] = "have tombstones"
    stays: Literal["arranged again if it changed", "always arranged again", "not arranged again"] = (
        "arranged again if it changed"
    )
    """A lead that has a part in the same unit as before."""
    in_several_units: Literal["joined once", "joined for each"] = "joined once"
    """A lead that has a part in several units of a chunk."""
    chunk_joins: Literal["leads in its units", "leads in units of all parts"] = "leads in its units"
    """Another part may not have written yet that a lead is gone."""
    chunk_has: Literal["its units", "all rows of its leads"] = "its units"


@dataclass(frozen=True, slots=True)
class Placed(Sale):
    """A row of a lead in a unit. Its key is the lead's, and the unit."""

    branch: int = 0
    lead: int = 0
    record: Record | None = None


def placed(row: Sale, query: GroupQuery, rules: Arranging) -> Placed:
    """Return the lead of a joined row, in the unit of that row."""
    assert isinstance(row, Joined)
    columns: Mapping[str, Unit] = {name: getattr(row, name) for name in query.columns}
    of_unit = Placed(
        key=(row.key[0],),
        status=columns.get("status", None),
        shop=columns.get("shop", None),
        branch=row.branch,
        lead=row.lead,
        record=row.columns[0],
    )
    if rules.lead_is_known_by == "key":
        return of_unit
    return replace(of_unit, key=(row.key[0], query.unit(row)))


def placed_images(images: Iterable[Images], query: GroupQuery, rules: Arranging) -> list[Images]:
    """Return both images of leads in units, from those of joined rows; without those that need not be arranged."""
    pairs = list(images)
    old, new = (
        {found.key: found for row in rows if row is not None for found in (placed(row, query, rules),)}
        for rows in ([old for old, _ in pairs], [new for _, new in pairs])
    )
    if rules.left_units == "keep the lead":
        old = {key: found for key, found in old.items() if key in new}

    def is_arranged(key: object) -> bool:
        if key not in old or key not in new or rules.stays == "always arranged again":
            return True
        return rules.stays == "arranged again if it changed" and old[key].record != new[key].record

    return [(old.get(key), new.get(key)) for key in {**old, **new} if is_arranged(key)]


def once(leads: Iterable[Placed], rules: Arranging) -> list[tuple[int, Record]]:
    """Return branch and row of each lead, once if it is in several units."""
    found = [(lead.branch, lead.record) for lead in leads if lead.record is not None]
    return list(dict.fromkeys(found)) if rules.in_several_units == "joined once" else found
