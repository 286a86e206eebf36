"""What a plan says about each of several upstreams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.kinds import further_leads
from airflow_backfill_provider.core.refresh_cost import FOLD, JOIN, over_join
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.first_look import FirstLook
from airflow_backfill_provider.jobs.planning.planned_changes import BROADCAST_BYTES, PlannedChange, planned_changes
from airflow_backfill_provider.shapes.queries import ShapedQuery
from airflow_backfill_provider.shapes.several import QueryOverSeveral


class PlannedUpstream(BaseModel):
    """
    One of several upstreams, as of the instant of the plan.

    :param location: where it is.
    :param leads: whether its rows are read in chunks.
    :param version: its offset.
    :param offset_name: what an offset is called, such as ``version``.
    :param files: its data files.
    :param rows: their rows.
    :param bytes: their size.
    :param kept_hours: how long it keeps changes; ``None`` if that is unknown.
    :param is_compared: whether it records no changes, and its rows at both ends of a window are compared.
    :param is_broadcast: whether it is so small that Spark, by default, sends it to every executor.
    :param change: an epoch in which 0.1 % of its rows change; ``None`` if the query does not tell what these touch.
    """

    model_config = ConfigDict(frozen=True)

    location: str
    leads: bool
    version: Offset
    offset_name: str
    files: int
    rows: int
    bytes: int
    kept_hours: float | None
    is_compared: bool = False
    is_broadcast: bool = False
    change: PlannedChange | None = None


def planned_upstreams(
    job: BackfillJob, seen: FirstLook, query: ShapedQuery, pinned: ResolvedUpstream, cost: str
) -> dict[str, PlannedUpstream]:
    """
    Return what is known of each of several upstreams, by its name; nothing if there is only one.

    :param query: the job's query, resolved over them.
    :param pinned: what the job has pinned of them, or will pin when it is created.
    :param cost: the name of what an epoch with changes costs; empty if it computes the whole view.
    """
    found, leads = {}, {job.lead_name, *further_leads(job)}
    for name, upstream in seen.several.items():
        definition, described = job.all_upstreams[name], upstream.described
        files = upstream.source.blocks(described.offset, described.key_order(definition.key))
        kept = upstream.source.changes_kept_for()
        size = sum(file.size for file in files)
        found[name] = PlannedUpstream(
            location=definition.location,
            leads=name in leads,
            version=described.offset,
            offset_name=definition.offset_name,
            files=len(files),
            rows=sum(file.row_count for file in files),
            bytes=size,
            kept_hours=None if kept is None else kept.total_seconds() / 3600,
            is_compared=name in pinned.others and pinned.others[name].compared,
            is_broadcast=name != job.lead_name and size <= BROADCAST_BYTES,
        )
    changes = _changes(seen, query, {name: one.rows for name, one in found.items()}, cost)
    return {name: one.model_copy(update={"change": changes.get(name)}) for name, one in found.items()}


def _changes(seen: FirstLook, query: ShapedQuery, rows: Mapping[str, int], cost: str) -> Mapping[str, PlannedChange]:
    if not isinstance(query, QueryOverSeveral):
        return {}

    def most(name: str, columns: Sequence[str]) -> int | None:
        upstream = seen.several[name]
        return upstream.source.largest_group(upstream.described.offset, columns)

    branches = query.branches(rows, most)
    if not branches:
        return {}
    # To compute groups anew, all rows of all tables are joined.
    always = () if cost in {JOIN, over_join(FOLD)} else tuple(rows)
    return planned_changes(branches, rows, always, cost)
