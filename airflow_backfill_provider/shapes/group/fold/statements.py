"""
The SQL of an epoch of a fold.

1. Over the images, :func:`changes` is the list of columns of a query that groups them. It has the FROM, WHERE and
   GROUP BY of the user's step, and its relation has the column :attr:`Fold.sign`.
2. :func:`moved` computes the new state of each group from that, and says which groups are lost.
3. :func:`shown` gives the view's rows of the groups that are not lost.
4. For the lost ones, the user's step runs over all of their rows, with :func:`of_rows` added to its list of columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill_provider.core.job.sql import quote, text_literal
from airflow_backfill_provider.shapes.group.fold.columns import BASE, DELTA
from airflow_backfill_provider.shapes.group.fold.folding import Fold

IMPOSSIBLE = "BACKFILL_IMPOSSIBLE_GROUP"
"""The error of a group whose state no rows have."""


def of_rows(fold: Fold) -> list[str]:
    """Return the hidden columns as items of a list of columns, over the rows of groups."""
    return [f"{column.of_rows} AS {column.sql}" for column in fold.columns]


def changes(fold: Fold) -> list[str]:
    """Return the changes of the hidden columns as items of a list of columns, over signed images."""
    return [f"{sql} AS {quote(name)}" for column in fold.columns for name, sql in column.changes.items()]


def moved(fold: Fold, delta: str, base: str) -> str:
    """
    Return the query of the new state of the groups that images touch.

    It has the units, the hidden columns and :attr:`Fold.is_lost`. If that is true, only the units have a meaning.

    :param delta: the SQL name of a relation with the units and the :func:`changes`.
    :param base: the SQL name of a relation with the units and the hidden columns, as the previous epoch left them. It
        may lack other groups.
    :returns: a query that fails with :data:`IMPOSSIBLE` if a group's state contradicts its changes.
    """
    units = [quote(unit) for unit in fold.step.units]
    same = " AND ".join(f"{BASE}.{unit} <=> {DELTA}.{unit}" for unit in units) or "true"
    states = [f"{column.moved} AS {column.sql}" for column in fold.columns]
    lost = list(dict.fromkeys(f"({column.is_lost})" for column in fold.columns if column.is_lost != "false"))
    is_lost = quote(fold.is_lost)
    inner = _select(
        [*(f"{DELTA}.{unit}" for unit in units), *states, f"{' OR '.join(lost) or 'false'} AS {is_lost}"],
        f"{delta} AS {DELTA} LEFT JOIN {base} AS {BASE} ON {same}",
    )
    checked = (
        f"CASE WHEN {fold.is_impossible} THEN raise_error({text_literal(IMPOSSIBLE)}) "
        f"ELSE {is_lost} OR {fold.is_inexact} END AS {is_lost}"
    )
    return _select([*units, *(column.sql for column in fold.columns), checked], f"({inner})")


def shown(fold: Fold, states: str) -> str:
    """
    Return the query of a step's results and hidden columns, for the groups that are not lost and not gone.

    :param states: the SQL name of a relation like that of :func:`moved`.
    """
    values = [f"{output.value} AS {quote(name)}" for name, output in fold.outputs.items()]
    columns = [*(quote(unit) for unit in fold.step.units), *values, *(column.sql for column in fold.columns)]
    return f"{_select(columns, states)} WHERE NOT {quote(fold.is_lost)} AND NOT ({fold.is_gone})"


def _select(columns: Sequence[str], relation: str) -> str:
    return f"SELECT {', '.join(columns)} FROM {relation}"
