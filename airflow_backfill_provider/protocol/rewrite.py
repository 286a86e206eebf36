"""The rows that an epoch writes beside those that changed or are read: of a repair, and because of a changed query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.changed_query import is_changed, record_of
from airflow_backfill_provider.core.epoch.repair import PARTIAL_REPAIR, Repair
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.job.definition_change import FilterChange
from airflow_backfill_provider.shapes.changed_definition import change_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """
    The rows to write.

    :param repair: the rows to repair; all of them, if the query changed in a way that may change any row.
    :param filter_change: the conditions of the former query and of the new one, if nothing else of it changed.
    :param reads: the columns of the former query, if its condition is computed.
    """

    repair: Repair = field(default_factory=Repair)
    filter_change: FilterChange | None = None
    reads: ResolvedUpstream | None = None

    def __bool__(self) -> bool:
        """Return whether there is anything to write."""
        return bool(self.repair) or self.filter_change is not None

    def warnings(self, vnodes: frozenset[int]) -> tuple[str, ...]:
        """
        Return what the repair leaves open.

        :param vnodes: the job's vnodes.
        """
        return (PARTIAL_REPAIR,) if self.repair and not vnodes <= set(self.repair.vnodes) else ()


def rewrite_of(history: Sequence[JobSettings], previous: Barrier | None, records: Sequence[JobSettings]) -> Rewrite:
    """
    Return what the next epoch writes again.

    The class of a change follows from what the view has by now, and not from what it had when the change was asked for.

    :param history: all records of the settings; the last one is in force.
    :param previous: the previous barrier of the incarnation; it is committed.
    :param records: the records since that barrier.
    """
    asked = sum((record.repair for record in records), Repair())
    former = record_of(history, previous) if previous is not None and is_changed(records) else None
    if previous is None or former is None:
        return Rewrite(repair=asked)
    settings = history[-1]
    change = change_of(former.definition, settings.definition)
    if change.kind.keeps_rows:
        return Rewrite(repair=asked)
    # The former condition may be what fails, so after an epoch that was given up it is not computed again.
    if change.filters is None or asked or previous.given_up is not None:
        return Rewrite(repair=asked + Repair(vnodes=tuple(sorted(settings.definition.vnodes))))
    filters = change.filters.model_copy(update={"types": former.types})
    return Rewrite(filter_change=filters, reads=former.upstream)
