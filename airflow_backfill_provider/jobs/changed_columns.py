"""
What a changed query does to the view's columns, and what must hold before they change.

The epoch replaces the view's rows and its schema in one commit. What hangs on the former columns would be lost, or the
commit would fail after all rows were computed. So it is refused when the change is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.definition_change import ColumnsChange
from airflow_backfill_provider.core.job.job_order import upstreams_on_view_of
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.columns import CHANGE_FEED_COLUMNS
from airflow_backfill_provider.lake.tables.view_table import ViewTable, names_to_map
from airflow_backfill_provider.shapes import KINDS
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source

STATISTICS = "delta.dataSkippingStatsColumns"
REBUILD = "rebuild the job instead: airflow-backfill rebuild --keep-serving"

_FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
"""Types that only a table with a feature can have, and the feature's name."""


def columns_change(held: JobSettings, latter: JobSettings, table: ViewTable) -> ColumnsChange | None:
    """
    Return how the columns of a view change; ``None`` if they stay.

    :param held: the settings with the definition that the view has, or has once a pinned epoch is committed.
    :param latter: those with the definition that it gets.
    :param table: the view's table, which has the columns of ``held`` if these are not pinned.
    """
    return ColumnsChange.between(held.view_types or table.types, latter.view_types)


def changed_in_upstreams(
    settings: JobSettings, upstream: Source, storage_options: Mapping[str, str] | None
) -> tuple[str, ...]:
    """
    Return how the columns that a job uses have changed in its upstreams since they were pinned, so that no epoch runs.

    :param upstream: the upstream that leads.
    """
    found = list(upstream.at().differences_from(settings.upstream))
    for name, other in settings.others.items():
        source = open_source(settings.definition.all_upstreams[name], storage_options)
        found += source.at().differences_from(other)
    return tuple(found)


def columns_missed_by(reader: JobSettings, writer: BackfillJob, change: ColumnsChange) -> list[str]:
    """
    Return the columns that a job downstream uses of a view, and that go or get another type there.

    :param reader: the settings of the job downstream.
    :param writer: the job whose view it may read.
    :param change: the columns that come, go or get another type.
    """
    job = reader.definition
    used = {
        column.name
        for name in upstreams_on_view_of(job, writer)
        for column in (reader.upstream if name == job.lead_name else reader.others[name]).columns
    }
    return [name for name in (*change.dropped, *change.retyped) if name in used]


def require_other_columns(held: JobSettings, latter: JobSettings, change: ColumnsChange, table: ViewTable) -> None:
    """
    Refuse other columns that the view's table cannot get.

    :param held: the settings with the definition that the view has.
    :param latter: those with the definition that it gets, and its columns.
    :param change: the columns that come, go or get another type.
    :param table: the view's table.
    :raises InvalidJobError: with the column, and what to do.
    """
    found = chain(
        _of_table(held, latter, table), _of_new_columns(latter, change, table), _of_former_columns(held, change, table)
    )
    why = next(found, None)
    if why is not None:
        raise InvalidJobError(f"query: it gives the view other columns ({change}), and {why}")


def _of_table(held: JobSettings, latter: JobSettings, table: ViewTable) -> Iterator[str]:
    """Yield why the view keeps its columns, whichever others the query gives."""
    location = held.definition.view_location
    if not KINDS.named(latter.shape).replaces_columns:
        yield f"no view of the shape {latter.shape} can get them; {REBUILD}"
    if table.is_clustered:
        yield f"Delta would then no longer cluster the table at {location}; {REBUILD}"
    if table.maps_columns:
        yield f"Delta refuses that for the table at {location}, which maps the names of columns; {REBUILD}"
    for name, words in table.added.items():
        yield f"the column {name} of the table at {location} has {words}, which would be lost; remove that first"


def _of_new_columns(latter: JobSettings, change: ColumnsChange, table: ViewTable) -> Iterator[str]:
    """Yield why the table cannot have the columns that come, or the types that they get."""
    for name in (*change.added, *change.retyped):
        for found in names_to_map({name: latter.view_types[name]}):
            yield f"the name {quote(found)} needs column mapping, which the table does not have; give it an alias"
        if table.has_feed and name.lower() in CHANGE_FEED_COLUMNS:
            yield f"{name} is a column of the table's change data feed; give it an alias"
        for word, feature in _FEATURES.items():
            if word in latter.view_types[name] and not any(found.startswith(feature) for found in table.features):
                yield f"the table's protocol does not allow the type of the column {name} ({word}); {REBUILD}"


def _of_former_columns(held: JobSettings, change: ColumnsChange, table: ViewTable) -> Iterator[str]:
    """Yield what in the table's properties names a column that goes or gets another type."""
    former, location = {name.lower() for name in (*change.dropped, *change.retyped)}, held.definition.view_location
    for name, text in table.constraints.items():
        if former & set(re.findall(r"\w+", text.lower())):
            yield (
                f"the table's constraint {name} is about one of them; drop it first: ALTER TABLE "
                f"delta.{quote(location)} DROP CONSTRAINT {quote(name)}"
            )
    if named := former & _with_statistics(table.properties):
        yield (
            f"the table's property {STATISTICS} names {', '.join(sorted(named))}; set it to columns that stay first, "
            f"or leave it out: ALTER TABLE delta.{quote(location)} UNSET TBLPROPERTIES ('{STATISTICS}')"
        )


def _with_statistics(properties: Mapping[str, str]) -> set[str]:
    """Return the columns that the table's owner wants statistics of, in lower case."""
    named = next((value for name, value in properties.items() if name.lower() == STATISTICS.lower()), "")
    return {name.strip().strip("`").lower() for name in named.split(",")} - {""}
