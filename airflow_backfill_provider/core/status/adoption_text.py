"""Says in words what was found of a table that became a view, and who has to stop writing to it."""

from __future__ import annotations

import datetime as dt

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.adoption import CONFIDENCE, Adopted, most_differing


def adoption_lines(settings: JobSettings) -> tuple[str, ...]:
    """Return what became the view, what the comparison found, and what to stop; nothing if the view was computed."""
    first_rows, adopted = settings.first_rows, settings.adopted
    if first_rows is None or adopted is None:
        return ()
    how = "in place" if settings.adopts_in_place else "by a copy of its files"
    upstream = settings.definition.upstream
    as_of = f"{upstream.offset_name} {first_rows.point.offset} of {upstream.location}"
    return (
        f"version {first_rows.version} of {first_rows.location} became the view, {how}, as of {as_of}",
        compared(adopted),
        to_stop(
            first_rows.location,
            in_place=settings.adopts_in_place,
            written_by=adopted.written_by,
            written_at=adopted.written_at,
        ),
    )


def compared(adopted: Adopted) -> str:
    """Return what a comparison of a table with the query found."""
    if adopted.differing:
        return (
            f"{text.counted(adopted.keys, 'key')} in {adopted.differing:,} of {adopted.compared:,} compared vnodes "
            "differed from the query; the first epoch repairs them. Verify the job afterwards"
        )
    if adopted.is_equal:
        return f"all {text.counted(adopted.vnodes, 'vnode')} were compared with the query, and are equal"
    most = most_differing(adopted.vnodes, adopted.compared)
    return (
        f"{adopted.compared:,} of {text.counted(adopted.vnodes, 'vnode')} were compared with the query, and are equal; "
        f"with {CONFIDENCE:.0%} confidence, at most {most:,} of the others differ. Verify the job to know all of them"
    )


def to_stop(location: str, *, in_place: bool, written_by: str, written_at: dt.datetime | None) -> str:
    """
    Return what must stop writing to a table.

    :param in_place: whether the table itself becomes the view.
    :param written_by: what wrote to it last.
    """
    last = f" (its last write: {written_by}, {written_at:%Y-%m-%d %H:%M} UTC)" if written_at else ""
    if in_place:
        return f"stop whatever writes to {location}{last}: only this job may, and it refuses what others write"
    return f"what writes to {location}{last} may go on or stop: the view no longer depends on it"


def unknown_rows(settings: JobSettings) -> str:
    """Return a warning as long as no comparison has found all adopted rows equal to the query; otherwise nothing."""
    adopted = settings.adopted
    return "" if adopted is None or settings.equal_sequence else f"the view was adopted, and {compared(adopted)}"
