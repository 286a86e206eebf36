"""The rows that an epoch writes beside those that changed or are read: of a repair, and because of a changed query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.changed_query import is_changed, record_of
from airflow_backfill_provider.core.epoch.repair import PARTIAL_REPAIR, Repair
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.job.definition_change import ColumnsChange, FilterChange
from airflow_backfill_provider.core.refresh import PinnedRefresh
from airflow_backfill_provider.shapes.changed_definition import change_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """
    The rows to write.

    :param repair: the rows to repair; all of them, if the query changed in a way that may change any row.
    :param filter_change: the conditions of the former query and of the new one, if nothing else of it changed.
    :param reads: the columns of the former query, if its condition is computed.
    :param columns_change: the columns that the view gets or loses.
    :param refresh: why the whole view is computed for another query, whatever the job asks for; ``None`` if it is not.
    :param left_out: why a repair that was asked for is impossible by now; empty if none is left out.
    """

    repair: Repair = field(default_factory=Repair)
    filter_change: FilterChange | None = None
    reads: ResolvedUpstream | None = None
    columns_change: ColumnsChange | None = None
    refresh: PinnedRefresh | None = None
    left_out: str = ""

    def __bool__(self) -> bool:
        """Return whether there is anything to write."""
        return bool(self.repair) or self.filter_change is not None

    def warnings(self, vnodes: frozenset[int]) -> tuple[str, ...]:
        """
        Return what the repair leaves open, or why there is none.

        :param vnodes: the job's vnodes.
        """
        if self.left_out:
            return (f"the repair that was asked for is left out: {self.left_out}",)
        return (PARTIAL_REPAIR,) if self.repair and not vnodes <= set(self.repair.vnodes) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerState:
    """
    What a repair and a changed query find, as of the previous epoch.

    :param view: the view's columns with their types.
    :param unread: which columns of the upstreams the new query uses that were not there yet, in words; else empty.
    :param lost: why the repair that was asked for is impossible; else empty.
    """

    view: Mapping[str, str] = field(default_factory=dict)
    unread: str = ""
    lost: str = ""


_UNKNOWN = FormerState()


def rewrite_of(
    history: Sequence[JobSettings],
    previous: Barrier | None,
    records: Sequence[JobSettings],
    found: FormerState = _UNKNOWN,
) -> Rewrite:
    """
    Return what the next epoch writes again.

    The class of a change follows from what the view has by now, and not from what it had when the change was asked for.

    :param history: all records of the settings; the last one is in force.
    :param previous: the previous barrier of the incarnation; it is committed.
    :param records: the records since that barrier.
    :param found: what a changed query finds.
    """
    asked = sum((record.repair for record in records), Repair())
    former = record_of(history, previous) if previous is not None and is_changed(records) else None
    if previous is None or former is None:
        return Rewrite(repair=asked)
    settings = history[-1]
    change = change_of(former.definition, settings.definition)
    columns = ColumnsChange.between(found.view, settings.view_types) if found.view and settings.view_columns else None
    # A star may give other columns by the same text.
    if change.kind.keeps_rows and columns is None and not found.unread:
        return Rewrite(repair=asked)
    everything = Repair(vnodes=tuple(sorted(settings.definition.vnodes)))
    if columns is not None:
        # The units that a user asked to repair are written as those of the former query.
        why = PinnedRefresh(whole=True, reason=f"the query gives other columns ({columns})")
        return Rewrite(repair=everything, columns_change=columns, refresh=why)
    if found.unread:
        why = PinnedRefresh(whole=True, reason=f"no change before shows what the query uses now ({found.unread})")
        return Rewrite(repair=everything, refresh=why)
    # The former condition may be what fails, so after an epoch that was given up it is not computed again.
    if change.filters is None or asked or previous.given_up is not None:
        return Rewrite(repair=asked + everything)
    filters = change.filters.model_copy(update={"types": former.types})
    return Rewrite(filter_change=filters, reads=former.upstream)
