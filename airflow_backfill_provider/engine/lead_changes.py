"""The changes of upstreams that lead further branches of a union, as an epoch applies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.engine.repeated_keys import resolve_doubtful
from airflow_backfill_provider.engine.tables import JobTables
from airflow_backfill_provider.shapes import resolved_query_of
from airflow_backfill_provider.spark.further_lead import FurtherLead
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.kept_changes import kept_changes, kept_rows
from airflow_backfill_provider.spark.net_changes import MeasuredChanges, measure_changes, net_changes, require_single


@dataclass(frozen=True, slots=True)
class LeadChanges:
    """
    The net changes of one upstream.

    :param net: the changes; all of its rows were read before, because a union's changes wait until then.
    :param measured: the number of these, and their properties.
    """

    net: DataFrame
    measured: MeasuredChanges


def changes_of_leads(tables: JobTables, barrier: Barrier, kept: ExitStack) -> Mapping[str, LeadChanges]:
    """
    Find the net changes of each upstream that leads a further branch, and keep them.

    :param kept: what they are kept for.
    :returns: the changes by the names of the upstreams; only of those that have any.
    :raises DuplicateKeyError: if a changed key does not identify a row.
    """
    if not barrier.view_before:
        return {}
    windows, query = barrier.changed_others, resolved_query_of(tables.settings)
    found = {
        name: _changes(lead, barrier.window(name), query.old_columns(lead.rows.columns), kept)
        for name, lead in tables.further.items()
        if name in windows
    }
    return {name: changes for name, changes in found.items() if changes.measured.through}


def _changes(
    lead: FurtherLead, window: UpstreamWindow, old_columns: Sequence[str] | None, kept: ExitStack
) -> LeadChanges:
    rows, begin, end = lead.rows, window.from_offset, window.to_offset
    lead.source.require_used_columns(begin, end, lead.created_on)
    found = _measured(rows, kept_changes(net_changes(rows, begin, end, F.lit(True), old_columns), kept))
    if found.measured.some_doubtful:
        found = _measured(rows, kept_rows(resolve_doubtful(rows, found.net, end), kept))
    if found.measured.some_appeared:
        # No merge by the key finds a second row of it: a unit may have several.
        require_single(rows, found.net, found.measured, end)
    return found


def _measured(rows: JobRows, net: DataFrame) -> LeadChanges:
    return LeadChanges(net, measure_changes(rows, net, F.lit(True)))
