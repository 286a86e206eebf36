"""The unit of each row, as the user's text computes it, with another column carried along."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.settings import ViewColumn
from airflow_backfill_provider.shapes.group.query import check_group_query
from airflow_backfill_provider.shapes.group.row_units import GroupRowUnits
from tests.builders import settings_of


@pytest.mark.parametrize(
    ("query", "units"),
    [
        (
            "SELECT c, count(*) AS n FROM upstream AS o WHERE x > 0 GROUP BY c",
            "SELECT (c) AS `u`, `r_` FROM `r` AS o WHERE x > 0",
        ),
        (
            "WITH a AS (SELECT c, x FROM upstream WHERE x > 1) SELECT c, max(x) AS m FROM a GROUP BY c",
            "SELECT (c) AS `u`, `r_` FROM (SELECT c, x , `r_` FROM `r` AS `upstream` WHERE x > 1) AS `a`",
        ),
        (
            "SELECT c, max(x) AS m FROM (SELECT *, x + 1 AS y FROM upstream) GROUP BY c",
            "SELECT (c) AS `u`, `r_` FROM (SELECT *, x + 1 AS y FROM `r` AS `upstream`)",
        ),
        (
            "FROM upstream |> WHERE x > 1 |> SELECT c, x |> DROP x |> AGGREGATE count(*) AS n GROUP BY c",
            "FROM `r` AS `upstream` |> WHERE x > 1 |> SELECT c, x , `r_` |> DROP x |> SELECT (c) AS `u`, `r_`",
        ),
        (
            "SELECT * FROM upstream QUALIFY rank() OVER (PARTITION BY c ORDER BY x) = 1",
            "SELECT (c) AS `u`, `r_` FROM `r` AS `upstream`",
        ),
    ],
)
def test_each_step_before_the_grouping_passes_the_row_on(query, units):
    """A step's list gets one more column, unless a star of the step has it anyway."""
    found = check_group_query(query).render_units("r", ["u"], (), carried="r_")
    assert " ".join(found.split()) == units


def test_the_units_of_a_job_have_names_of_the_package_and_the_types_that_were_pinned():
    """Positions are encoded by these, and a vnode is hashed from them."""
    query = check_group_query("SELECT status, amount > 1 AS __big, count(*) AS n FROM upstream GROUP BY 1, 2")
    columns = (("status", "string"), ("__big", "boolean"), ("n", "long"))
    settings = settings_of(view_columns=tuple(ViewColumn(name=name, type=kind) for name, kind in columns))
    units = query.row_units(settings)
    types = [(unit.name, unit.type) for unit in units.order.fields]
    assert types == [("__unit_0", "string"), ("__unit_1", "boolean")]
    assert units.carried == "___row"
    assert "AS `__unit_1`, `___row` FROM" in units.over("rows")


def test_a_job_that_is_only_planned_has_no_types_of_units_yet():
    query = check_group_query("SELECT status, count(*) AS n FROM upstream GROUP BY status")
    assert not query.row_units(settings_of()).order.fields


def test_rows_are_read_by_the_same_units_if_the_query_is_the_same():
    """What is cached of rows is not that of another query's units."""
    one, same, other = (
        GroupRowUnits(check_group_query(text), text, ("u",), frozenset("c"))
        for text in ("SELECT c FROM upstream GROUP BY c",) * 2 + ("SELECT c FROM upstream GROUP BY lower(c), c",)
    )
    assert one == same
    assert one != other
