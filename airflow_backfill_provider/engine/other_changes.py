"""The changes of the upstreams that are read whole, as an epoch applies them, and their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.engine.single_keys import require_single_key, require_single_key_at_end
from airflow_backfill_provider.engine.tables import JobTables, OtherTable
from airflow_backfill_provider.shapes import resolved_query_of
from airflow_backfill_provider.shapes.several import QueryOverSeveral
from airflow_backfill_provider.sources.shared.by_key import column, with_keys
from airflow_backfill_provider.spark.different_rows import different_rows
from airflow_backfill_provider.spark.kept_changes import kept_changes


@dataclass(frozen=True, slots=True)
class OtherChanges:
    """
    The changes of the upstreams that are read whole.

    :param images: all images of their changed rows, by the names of the upstreams; only of those that have any.
    :param rows: the keys of the changed rows of those that do not lead.
    """

    images: Mapping[str, DataFrame] = field(default_factory=dict)
    rows: int = 0


@contextmanager
def images_of_others(tables: JobTables, barrier: Barrier) -> Iterator[OtherChanges]:
    """
    Find all images of the changed rows of each upstream that is read whole, and keep them for the block.

    :returns: the images; none while they could touch no row of the view or of the strategy's tables.
    :raises DuplicateKeyError: if a key that the view relies on is there several times as of the end of its window.
    """
    query = resolved_query_of(tables.settings)
    if not isinstance(query, QueryOverSeveral):
        yield OtherChanges()
        return
    found, changed = {}, 0
    with ExitStack() as kept:
        windows = _changed(tables, barrier)
        for name, other in tables.others.items():
            # Before a window is looked at, a key may have come to be there again in any of them.
            is_first = not barrier.view_before
            if is_first and name in query.keyed:
                require_single_key_at_end(other.rows, barrier.window(name))
            if name not in windows or (is_first and not tables.are_placed_beside_others):
                continue
            images = kept_changes(_images(other, windows[name]), kept)
            if number := images.select(*map(column, other.rows.key.names)).distinct().count():
                found[name] = images
                changed += 0 if name == tables.settings.definition.lead_name else number
                if name in query.keyed and not is_first:
                    require_single_key(other.rows, _of_changed(other, images, windows[name]), expected=number)
        yield OtherChanges(found, changed)


def _changed(tables: JobTables, barrier: Barrier) -> Mapping[str, UpstreamWindow]:
    """Return the windows to look for changes in, by the names of the upstreams."""
    lead = tables.settings.definition.lead_name
    return {**barrier.changed_others, **({lead: barrier.upstream} if barrier.lead_has_changes else {})}


def _images(other: OtherTable, window: UpstreamWindow) -> DataFrame:
    if other.created_on.compared:
        return different_rows(other.rows, window.from_offset, window.to_offset)
    other.source.require_used_columns(window.from_offset, window.to_offset, other.created_on)
    return other.rows.changes(window.from_offset, window.to_offset).select(*map(column, other.rows.columns))


def _of_changed(other: OtherTable, images: DataFrame, window: UpstreamWindow) -> DataFrame:
    """Return the rows as of the window's end whose keys are in any image: a netted key may hide a second row."""
    names = other.rows.key.names
    changed = images.select(*map(column, names)).distinct()
    return with_keys(other.rows.at(window.to_offset).select(*map(column, names)), changed, names)
