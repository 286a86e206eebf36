"""What a query of groups may not have, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_backfill_provider.core.errors import InvalidJobError

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.definition import BackfillJob

BY_GROUPS = ", which cannot be kept up to date by groups"
"""What a refusal says of a construct; another shape that shares a check says something else."""

CHAIN = "make a view of the inner SELECT, and a second job over that view once it is finished"
"""The advice for what one job cannot keep, and two can."""

_ONE_UPSTREAM = "join nothing here; select from upstream alone"
_OF_GROUPS = "write SELECT … FROM upstream [WHERE …] GROUP BY …, or window functions with PARTITION BY"
_EACH_GRAIN = "make one job for each list of columns to group by"

_INSTEAD: Mapping[str, str] = {
    "JOIN": _ONE_UPSTREAM,
    "joins and subqueries": "select from upstream alone; for a value of a whole group, write a window such as "
    "max(x) OVER (PARTITION BY …)",
    "subqueries": "for a value of a whole group, write a window such as max(x) OVER (PARTITION BY …); else "
    "make a grouped view of the subquery, and join the two views when you read them",
    "ORDER BY": "sort the view when you read it",
    "SORT BY": "sort the view when you read it",
    "LIMIT": "number the rows with rank() OVER (PARTITION BY … ORDER BY …), and filter on that with QUALIFY",
    "OFFSET": "number the rows with rank() OVER (PARTITION BY … ORDER BY …), and filter on that with QUALIFY",
    "FETCH": "number the rows with rank() OVER (PARTITION BY … ORDER BY …), and filter on that with QUALIFY",
    "LATERAL VIEW": "make a view of the rows first, and explode them when you read it",
    "ROLLUP": _EACH_GRAIN,
    "CUBE": _EACH_GRAIN,
    "GROUPING SETS": _EACH_GRAIN,
    "HAVING without GROUP BY": "filter the view's one row when you read it",
}


def unsupported(what: str) -> InvalidJobError:
    """Return the error for a construct that no query of groups may have, with what to write instead."""
    return refused(what, _INSTEAD.get(what, _OF_GROUPS))


def refuse_vnodes(job: BackfillJob) -> None:
    """
    Refuse a job over a part of its upstream's vnodes.

    :raises InvalidJobError: with what to do.
    """
    if job.restrict_to.vnodes:
        raise InvalidJobError(
            "restrict_to.vnodes: a group has rows of several vnodes, and would be computed from some of them; "
            "restrict the job by keys, or by a WHERE in its query"
        )


def refused(what: str, instead: str) -> InvalidJobError:
    """
    Return the error for a construct.

    :param what: the construct.
    :param instead: what to write instead.
    """
    return InvalidJobError(f"the query uses {what}{BY_GROUPS}; {instead}")
