"""What a plan says about each of several upstreams."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.kinds import further_leads
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.first_look import FirstLook


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


def planned_upstreams(job: BackfillJob, seen: FirstLook) -> dict[str, PlannedUpstream]:
    """Return what is known of each of several upstreams, by its name; nothing if there is only one."""
    found, leads = {}, {job.lead_name, *further_leads(job)}
    for name, upstream in seen.several.items():
        definition, described = job.all_upstreams[name], upstream.described
        files = upstream.source.blocks(described.offset, described.key_order(definition.key))
        kept = upstream.source.changes_kept_for()
        found[name] = PlannedUpstream(
            location=definition.location,
            leads=name in leads,
            version=described.offset,
            offset_name=definition.offset_name,
            files=len(files),
            rows=sum(file.row_count for file in files),
            bytes=sum(file.size for file in files),
            kept_hours=None if kept is None else kept.total_seconds() / 3600,
        )
    return found
