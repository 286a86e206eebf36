"""The changes of a window, as an epoch applies them: what the view gets, and what the strategy keeps for later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.engine.lead_changes import LeadChanges, changes_of_leads
from airflow_backfill_provider.engine.other_changes import images_of_others
from airflow_backfill_provider.engine.repeated_keys import resolve_doubtful, resolve_doubtful_versions
from airflow_backfill_provider.engine.single_keys import require_single_keys
from airflow_backfill_provider.engine.tables import JobTables
from airflow_backfill_provider.shapes import KINDS as SHAPES
from airflow_backfill_provider.shapes import resolved_query_of
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.spark.kept_changes import kept_changes, kept_rows
from airflow_backfill_provider.spark.net_changes import (
    NO_CHANGES,
    MeasuredChanges,
    changes_by_version,
    leaves_something,
    measure_changes,
    net_changes,
    net_of_versions,
    no_net_changes,
    require_single,
    with_cleared,
)
from airflow_backfill_provider.spark.small_changes import in_one_task_if_few


@dataclass(frozen=True, slots=True)
class HeldBack:
    """
    Net changes that the view does not get yet.

    :param net: the changes.
    :param number: how many there are.
    """

    net: DataFrame
    number: int


class WindowChanges:
    """
    Finds the changes of a window, and keeps them for the time of an epoch.

    :param since: the tables' versions after the previous epoch; ``None`` if there was none.
    :param opened: what they are kept for.
    """

    def __init__(self, tables: JobTables, barrier: Barrier, since: TableVersions | None, opened: ExitStack) -> None:
        self.tables, self.barrier, self.opened = tables, barrier, opened
        self.rows = tables.lead_rows
        self._since = since
        self._found: DataFrame | None = None
        self._net: DataFrame | None = None
        self._measured: MeasuredChanges = NO_CHANGES
        self._images: Mapping[str, DataFrame] = {}
        self._further: Mapping[str, LeadChanges] = {}
        self._other_rows = 0

    @property
    def through(self) -> int:
        """The number of changes that apply to the view, of all upstreams."""
        leads = (self._measured, *(found.measured for found in self._further.values()))
        return sum(measured.through for measured in leads) + self._other_rows

    @property
    def rows_added(self) -> int:
        """The rows that these add to those read before."""
        return self._measured.rows_added + sum(found.measured.rows_added for found in self._further.values())

    @cached_property
    def visible(self) -> Column:
        """The condition that a row was read before the epoch."""
        return self.tables.job_rows.is_read(self.barrier.read_before)

    @cached_property
    def old_columns(self) -> Sequence[str] | None:
        """The columns whose values before the window the shape needs; ``None`` if it needs no old row."""
        return resolved_query_of(self.tables.settings).old_columns(self.rows.columns)

    def find(self) -> None:
        """
        Find the changes.

        :raises DuplicateKeyError: if a key that the view relies on does not identify a row.
        """
        barrier = self.barrier
        if barrier.computes_whole:
            require_single_keys(self.tables, barrier)
            return
        found = self.net_changes()
        if found is not None:
            self._hold(found)
            if self._measured.some_doubtful:
                resolve = resolve_doubtful_versions if self._keeps_versions else resolve_doubtful
                resolved = resolve(self.rows, found, barrier.upstream.to_offset)
                self._hold(kept_rows(resolved, self.opened))
            repairs = self.tables.settings.may_differ(barrier)
            must_be_single = repairs or self.rows.key_spans_vnodes or self.tables.writer.replaces_leads
            if self._measured.some_appeared and must_be_single and self._net is not None:
                require_single(self.rows, self._net, self._measured, barrier.upstream.to_offset)
        others = self.opened.enter_context(images_of_others(self.tables, barrier))
        self._images, self._other_rows = others.images, others.rows
        self._further = changes_of_leads(self.tables, barrier, self.opened)

    def of_view(self) -> Changes | None:
        """Return the changes that apply to the view; ``None`` if there are none."""
        measured, versions = self._measured, None
        if self._net is not None and measured.through:
            if self._keeps_versions and self._found is not None:
                versions = self.applied(self._found)
            net = in_one_task_if_few(self._net, measured.through + measured.held_back, measured.value_bytes)
            net = self.applied(net)
        elif self._images or self._further:
            net = no_net_changes(self.rows, self.barrier.upstream.to_offset, self.old_columns)
            measured = NO_CHANGES
        else:
            return None
        further = {name: found.net for name, found in self._further.items()}
        return Changes(net=net, measured=measured, versions=versions, images=self._images, further=further)

    def held_back(self) -> HeldBack | None:
        """Return the changes that the strategy keeps; ``None`` if there are none."""
        if self._net is None or not self._measured.held_back:
            return None
        return HeldBack(self._net.filter(~self.visible & leaves_something(self.rows)), self._measured.held_back)

    def net_changes(self) -> DataFrame | None:
        """
        Return the net changes that the epoch writes, or its changes by version; ``None`` if it reads none.

        These are the changes of rows in the view, each after the offset that its row is as of, unless they wait, and
        the changes that the strategy keeps.
        """
        tables, barrier, rows = self.tables, self.barrier, self.rows
        if not barrier.lead_has_changes:
            return None
        shown = barrier.view_before if barrier.publishes else ()
        kept = tables.reader.wanted(self.visible, barrier)
        if not (shown or kept is not None):
            return None
        wanted = rows.after(shown)
        if kept is not None:
            wanted |= kept
        net = self.net(wanted)
        after, to_offset = barrier.changes_after, barrier.upstream.to_offset
        if self._since is not None and shown and rows.reader.is_cleared(after, to_offset):
            # As the previous epoch left it, so that every attempt deletes the same rows.
            view = tables.view.table.read_at(self._since.view.version)
            net = with_cleared(rows, net, tables.writer.keys(view), to_offset)
        return kept_changes(net, self.opened)

    def net(self, wanted: Column) -> DataFrame:
        """Return the changes of the upstream that leads, of those that meet a condition: net, or by version."""
        tables, after, to_offset = self.tables, self.barrier.changes_after, self.barrier.upstream.to_offset
        tables.upstream.require_used_columns(after, to_offset, tables.settings.upstream)
        if self._keeps_versions:
            return changes_by_version(self.rows, after, to_offset, wanted)
        return net_changes(self.rows, after, to_offset, wanted, self.old_columns)

    def applied(self, net: DataFrame) -> DataFrame:
        """Return those of net changes that apply to the view."""
        return net.filter(self.visible)

    def measured(self, net: DataFrame) -> MeasuredChanges:
        """Count net changes."""
        return measure_changes(self.rows, net, self.visible)

    @property
    def _keeps_versions(self) -> bool:
        """Whether the view keeps former rows by version, so that its writer needs the changes of each."""
        settings = self.tables.settings
        return settings.definition.keep.keeps_former_rows and SHAPES.named(settings.shape).former_rows_by_version

    def _hold(self, found: DataFrame) -> None:
        net = net_of_versions(self.rows, found) if self._keeps_versions else found
        self._found, self._net, self._measured = found, net, self.measured(net)
