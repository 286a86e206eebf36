"""The lines of a job's status about each of several upstreams."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.status.job_status import JobStatus
from airflow_backfill_provider.core.status.upstream_status import UpstreamStatus


def upstream_lines(status: JobStatus) -> Iterator[tuple[str, str]]:
    """Yield the name of each upstream, and what is known of it; nothing if there is only one."""
    for name, upstream in status.upstreams.items():
        yield name, "; ".join(_parts(upstream))


def _parts(upstream: UpstreamStatus) -> Iterator[str]:
    leads = ", leads" if upstream.leads else ""
    at = "none yet" if upstream.version is None else f"{upstream.offset_name} {upstream.version}"
    as_of = "" if upstream.as_of is None else f" of {upstream.as_of:%Y-%m-%d %H:%M:%S} UTC"
    yield f"view at {at}{as_of}, newest is {upstream.latest_version}{leads}"
    if not upstream.answers:
        yield "it does not answer"
    elif upstream.lag_versions:
        age = "" if upstream.lag_seconds is None else f", {text.duration(upstream.lag_seconds)}"
        yield f"lag {text.counted(upstream.lag_versions, upstream.lag_unit)}{age}"
    if upstream.headroom_hours is not None:
        yield f"headroom {text.duration(upstream.headroom_hours * 3600)}"
