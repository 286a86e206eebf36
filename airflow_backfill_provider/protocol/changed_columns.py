"""What an epoch finds that repairs, or whose query changed: what is lost, and the columns of view and upstreams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_backfill_provider.core.epoch.changed_query import is_changed, record_of
from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.jobs.lost_rows import why_not_computed_again
from airflow_backfill_provider.lake.tables.view_table import view_table
from airflow_backfill_provider.protocol.decision import EpochInputs
from airflow_backfill_provider.protocol.rewrite import FormerState
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source


def former_state(inputs: EpochInputs, upstream: Source, storage_options: Mapping[str, str] | None) -> FormerState:
    """
    Return what a repair and a changed query find; nothing is looked up without a repair or other columns.

    Every epoch before is committed, so the view has the columns of the former query.

    :param upstream: the upstream that leads.
    :param storage_options: options of the object store.
    """
    if inputs.previous is None:
        return FormerState()
    if not is_changed(inputs.new_records):
        repairs = any(record.repair for record in inputs.new_records)
        end = inputs.previous.upstream.to_offset
        return FormerState(lost=why_not_computed_again(inputs.settings, upstream, end) if repairs else "")
    former, settings = record_of(inputs.history, inputs.previous), inputs.settings
    if former and (former.upstream, former.view_columns) == (settings.upstream, settings.view_columns):
        return FormerState()
    table = view_table(settings.definition.view_location, storage_options)
    # Of a view that is gone, the epoch says so on Spark.
    columns = {} if table is None else table.types
    unread = "; ".join(_unread(inputs, upstream, storage_options))
    return FormerState(view=columns, unread=unread)


def _unread(inputs: EpochInputs, upstream: Source, storage_options: Mapping[str, str] | None) -> Iterator[str]:
    """Yield how the columns that the query uses differ from what the upstreams had at the end of the last epoch."""
    settings, previous = inputs.settings, inputs.previous
    if previous is None:
        return
    tables = {settings.definition.lead_name: (upstream, settings.upstream)}
    for name, other in settings.others.items():
        tables[name] = open_source(settings.definition.all_upstreams[name], storage_options), other
    for name, (source, used) in tables.items():
        begin = previous.window(name).to_offset
        try:
            yield from source.at(begin).differences_from(used)
        except UpstreamError:
            yield f"offset {begin} of {source.location} is gone"
