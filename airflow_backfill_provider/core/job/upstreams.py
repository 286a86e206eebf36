"""
The upstreams of a job, by the names that its query gives them.

One of them is the *lead*: positions, chunks and the strategy are about it alone. The others are read whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any

from pydantic import SerializeAsAny, ValidatorFunctionWrapHandler, WrapValidator

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition, definition_class

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

LEAD_OF_SEVERAL: Any = object()
"""Stands for the field ``upstream`` of a job with ``upstreams``, until it is known which one leads."""


def _of_its_kind(value: Any, _: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, UpstreamDefinition) or value is LEAD_OF_SEVERAL:
        return value
    kind, fields = definition_class(value)
    return kind.model_validate(fields)


UpstreamField = Annotated[SerializeAsAny[UpstreamDefinition], WrapValidator(_of_its_kind)]
"""An upstream of whatever kind."""


def with_lead(fields: Any) -> Any:
    """
    Return the fields of a definition, with a place for the lead if it has ``upstreams``.

    :raises InvalidJobError: if it also has ``upstream``.
    """
    if not isinstance(fields, Mapping) or "upstreams" not in fields:
        return fields
    if "upstream" in fields:
        raise InvalidJobError("upstream and upstreams are both given; leave out upstream, and name its table, too")
    return {**fields, "upstream": LEAD_OF_SEVERAL}


def require_names(names: Sequence[str]) -> None:
    """
    Refuse names that a query cannot tell apart, or cannot read without quotes.

    :raises InvalidJobError: with the name.
    """
    if not names:
        raise InvalidJobError("names no table; give each table that the query reads by its name there, or use upstream")
    for name in names:
        if not _NAME.fullmatch(name):
            raise InvalidJobError(
                f"{name!r} is no plain name; use letters, digits and '_', not beginning with a digit, as the query does"
            )
        if alike := [other for other in names if other != name and other.lower() == name.lower()]:
            raise InvalidJobError(f"{name} and {alike[0]} differ only in case, which Spark ignores; rename one of them")


def lead_of(names: Collection[str], read: Sequence[str], lead: str) -> str:
    """
    Return the name of the upstream that leads.

    :param names: the names of the upstreams.
    :param read: those that the query reads, as it writes them; the one that leads is the first.
    :param lead: the one that the job wants to lead; empty if it names none.
    :raises InvalidJobError: if the query reads others, or not all of them.
    """
    if lead and lead not in names:
        raise InvalidJobError(f"lead: {lead} is none of upstreams ({', '.join(names)}); name one of them")
    known = {name.lower(): name for name in names}
    if unknown := [name for name in read if name.lower() not in known]:
        raise InvalidJobError(f"query: it reads {unknown[0]}, which is none of upstreams ({', '.join(names)})")
    lowered = {name.lower() for name in read}
    if unread := [name for name in names if name.lower() not in lowered]:
        raise InvalidJobError(f"upstreams: the query does not read {unread[0]}; leave it out, or join it")
    return lead or known[read[0].lower()]


def require_different_tables(upstreams: Mapping[str, UpstreamDefinition]) -> None:
    """
    Refuse one table under two names: its two windows could end at different offsets.

    :raises InvalidJobError: with both names.
    """
    seen: dict[str, str] = {}
    for name, upstream in upstreams.items():
        for place in sorted(filter(None, {upstream.catalog_table, upstream.location})):
            if (other := seen.setdefault(place, name)) != name:
                raise InvalidJobError(
                    f"{other} and {name} are one table, {place}; name it once, and read it twice in the query"
                )


def field_of(relation: str, field: str) -> str:
    """Return a field of an upstream, such as ``upstream.path``, as a job with ``upstreams`` names it."""
    return f"upstreams.{relation}{field.removeprefix('upstream')}"


def by_field(
    lead: UpstreamDefinition,
    upstreams: Mapping[str, UpstreamDefinition],
    values_of: Callable[[UpstreamDefinition], Mapping[str, str]],
) -> Mapping[str, str]:
    """
    Return values of all upstreams, such as their folders, each by the full name of its field.

    :param lead: the upstream that leads, or the only one.
    :param upstreams: all of them by name; empty if there is only one, as the short form gives it.
    """
    if not upstreams:
        return values_of(lead)
    return {
        field_of(name, field): value for name, found in upstreams.items() for field, value in values_of(found).items()
    }


def length_of_name(path: tuple[int | str, ...]) -> int:
    """Return how many parts of a field's path name an upstream; 0 if the field is of none."""
    return {"upstream": 1, "upstreams": 2}.get(str(path[0]), 0) if path else 0


def written_at(path: tuple[int | str, ...], fields: Mapping[str, Any]) -> Any:
    """Return the upstream that a field's path leads into, as a definition's author wrote it; ``None`` without one."""
    if not path or path[0] != "upstreams":
        return fields.get("upstream")
    upstreams = fields.get("upstreams")
    return upstreams.get(path[1]) if isinstance(upstreams, Mapping) and path[1:] else None
