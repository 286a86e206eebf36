"""The table of the cases that the tests of campaigns play."""

from __future__ import annotations

from faults.groups.tables import Table
from faults.lives.tables import DrawnTable
from faults.shapes.case import Case, Column

ID, SHOP, AMOUNT = (
    Column(name=name, type=kind) for name, kind in (("id", "long"), ("shop", "string"), ("amount", "integer"))
)
_UPSTREAM = Case(
    rows_seed=3,
    writer="delta-rs",
    columns=(ID, SHOP, AMOUNT),
    key=(("id", False),),
    rows=20,
    files=1,
)

TABLE = DrawnTable("upstream", Table((ID,), (SHOP,), (AMOUNT,)), _UPSTREAM)
