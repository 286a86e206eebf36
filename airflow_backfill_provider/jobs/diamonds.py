"""
Diamonds: two upstreams of a job that are made of a common table.

Both must show the same version of that table. Until their frontiers can be compared, such a job is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_backfill_provider.core.errors import BackfillError, InvalidJobError
from airflow_backfill_provider.jobs.chain import MOST_JOBS, reader_of
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source


def require_no_diamond(upstreams: Mapping[str, Source], storage_options: Mapping[str, str] | None) -> None:
    """
    Refuse upstreams of which one is made of another, or two of a common table.

    :param upstreams: the upstreams by their names.
    :raises InvalidJobError: with both names and the table.
    """
    seen: dict[str, str] = {}
    for name, source in upstreams.items():
        for location in set(_made_of(source, dict(storage_options or {}), MOST_JOBS)):
            if (other := seen.setdefault(location, name)) != name:
                raise InvalidJobError(
                    f"upstreams: {other} and {name} both come from {location}, and could show two versions of it; "
                    "make one view of what the query needs of both, and read that"
                )


def _made_of(source: Source, options: Mapping[str, str], most: int) -> Iterator[str]:
    """Yield the location of an upstream, and of all that the view there is made of."""
    yield source.location
    view = source.view_at() if most else None
    reader = None if view is None else reader_of(view, options)
    if reader is None:
        return
    try:
        upstreams = reader.settings().definition.all_upstreams
    except BackfillError:
        return
    for definition in upstreams.values():
        yield from _made_of(open_source(definition, options), options, most - 1)
