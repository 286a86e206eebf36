"""What no query may have, also if its view is computed whole, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.errors import InvalidJobError

NO_VIEW = ", which no view can have"

_ORDERED = "number the rows with row_number() OVER (ORDER BY …, the key) and filter on that with QUALIFY"

_INSTEAD: Mapping[str, str] = {
    "ORDER BY": "sort the view when you read it",
    "SORT BY": "sort the view when you read it",
    "CLUSTER BY": "sort the view when you read it",
    "DISTRIBUTE BY": "leave it out",
    "LIMIT": _ORDERED,
    "OFFSET": _ORDERED,
    "FETCH": _ORDERED,
    "TABLESAMPLE": "filter by a hash of the key, such as WHERE pmod(hash(id), 10) = 0",
    "subqueries in expressions": "write a JOIN, or a window",
}


def unsupported(what: str) -> InvalidJobError:
    """Return the error for a construct that no query may have, with what to write instead."""
    return refused(what, _INSTEAD.get(what, "write one SELECT over upstream"))


def refused(what: str, instead: str) -> InvalidJobError:
    """
    Return the error for a construct.

    :param what: the construct.
    :param instead: what to write instead.
    """
    return InvalidJobError(f"the query uses {what.removesuffix(',')}{NO_VIEW}; {instead}")
