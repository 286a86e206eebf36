"""What a job's status says about its upstreams: how far the view is behind, and a line for each of several."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.status.job_status import JobSummary
from airflow_backfill_provider.core.status.upstream_status import UpstreamStatus


def lag_of_lead(status: JobSummary) -> str:
    """Return how far a view is behind its upstream, or behind the one that leads."""
    return _lag(status.lag_versions, status.lag_unit, status.lag_seconds, answers=status.upstream_answers)


def lag_of_all(status: JobSummary) -> str:
    """Return how far a view is behind its upstream; of several, behind the one that it is furthest behind."""
    found = status.furthest
    if found is None:
        return lag_of_lead(status)
    lag = _lag(found.lag_versions, found.lag_unit, found.lag_seconds, answers=found.answers)
    return f"{lag} ({status.furthest_behind})" if found.lag_versions or not found.answers else lag


def behind_root(seconds: float | None) -> str:
    """Return how far a view is behind the first upstream of a chain; empty if that is unknown."""
    if seconds is None:
        return ""
    return f" ({f'at most {text.duration(seconds)} behind' if seconds else 'as new as'} the chain's first upstream)"


def upstream_lines(status: JobSummary) -> Iterator[tuple[str, str]]:
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
        yield f"lag {_lag(upstream.lag_versions, upstream.lag_unit, upstream.lag_seconds, answers=True)}"
    if upstream.headroom_hours is not None:
        yield f"headroom {text.duration(upstream.headroom_hours * 3600)}"
    if upstream.chain:
        yield f"view of {' → '.join(map(str, upstream.chain))}{behind_root(upstream.root_lag_seconds)}"


def _lag(offsets: int, unit: str, seconds: float | None, *, answers: bool) -> str:
    if not answers:
        return "unknown"
    age = f", {text.duration(seconds)}" if offsets and seconds is not None else ""
    return f"{text.size(offsets) if unit == 'byte' else text.counted(offsets, unit)}{age}"
