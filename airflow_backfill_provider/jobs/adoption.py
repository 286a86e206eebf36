"""
Adopt an existing table: it becomes the view of a job that is created, in place of a backfill.

The table shows the query's rows as of some point of the upstream's history, ``as_of``. All history counts as read
there, and the first epoch applies the changes after it. What the table really shows is compared before anything is
written. A table that differs is refused, unless the job asks for a repair, which the first epoch then carries out.
"""

from __future__ import annotations

import datetime as dt
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from airflow_backfill_provider.core.epoch.engine import Engine
from airflow_backfill_provider.core.epoch.repair import MOST_KEYS, Repair
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.errors import AdoptedTableDiffersError, InvalidJobError
from airflow_backfill_provider.core.job.adoption import Adopted, BackfillFrom
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.job.succession import FirstRows
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.scan.scan import VnodeRange
from airflow_backfill_provider.core.status.verification import (
    ComparedVnodes,
    PinnedVerification,
    Verification,
    read_vnodes,
    steps_of,
)
from airflow_backfill_provider.core.status.verification_text import key_line
from airflow_backfill_provider.core.status.verified_state import SAMPLE
from airflow_backfill_provider.jobs.first_look import StorageOptions
from airflow_backfill_provider.lake.tables.adoptable import FoundTable, find_table
from airflow_backfill_provider.shapes import resolved_query_of, shape_of
from airflow_backfill_provider.sources.base import Source


class AdoptingEngine(Engine, Protocol):
    """What creating a job asks of Spark."""

    def compare_adopted(self, settings: JobSettings, pinned: PinnedVerification) -> Sequence[ComparedVnodes]:
        """
        Compare a table that shall become the view of a job with the query, before anything is written.

        :param settings: the settings that the job would be created with.
        :returns: the results of the pinned steps.
        """
        ...


def find_adopted(job: BackfillJob, wanted: BackfillFrom, storage_options: StorageOptions) -> FoundTable:
    """
    Return the table that a job adopts, by its log.

    :raises MaterializedViewError: with what the view could not have.
    """
    return find_table(wanted.path, wanted.version, in_place=job.adopts_in_place, storage_options=storage_options)


def first_rows_of(job: BackfillJob, table: FoundTable, point: HistoryPoint, created_on: ResolvedUpstream) -> FirstRows:
    """
    Return a table as the rows that a view begins with, none of which is compared yet.

    :param point: the adopted point of the upstream, or of the one that leads.
    :param created_on: the upstreams as of the adopted point.
    """
    return FirstRows(
        point=point,
        location=table.location,
        version=table.version,
        others={name: other.point for name, other in created_on.others.items()},
        adopted=Adopted(compared=0, vnodes=job.vnode_count, written_by=table.written_by, written_at=table.written_at),
    )


def adopting(
    settings: JobSettings,
    *,
    upstream: Source,
    engine: Callable[[], AdoptingEngine],
    storage_options: StorageOptions,
    requested_by: str,
    now: dt.datetime,
) -> JobSettings:
    """
    Return the first settings of a job whose view is a table that was there before; nothing is written.

    :param settings: the settings of the job without the table; their upstreams are as of ``as_of``.
    :raises AdoptedTableDiffersError: if the table differs from the query, and the job asks for no repair.
    :raises BackfillError: if the table cannot become the view.
    """
    job, at = settings.definition, settings.offset_at_creation
    wanted = job.backfill_from
    if wanted is None or at is None:
        raise InvalidJobError(f"backfill_from: job {job.name} names no table to adopt")
    table = find_adopted(job, wanted, storage_options)
    first_rows = first_rows_of(job, table, upstream.point(at), settings.upstream)
    candidate = settings.model_copy(update={"first_rows": first_rows})
    pinned = _pinned(candidate, at, upstream.row_count(at), requester=Requester(user=requested_by), now=now)
    found = Verification(pinned, tuple(engine().compare_adopted(candidate, pinned)))
    if found.differences and not wanted.repair:
        raise AdoptedTableDiffersError(_difference(candidate, found), tuple(map(key_line, found.keys[:SAMPLE])))
    adopted = Adopted(
        compared=_vnodes_in(pinned),
        vnodes=job.vnode_count,
        differing=len(found.differences),
        keys=sum(difference.keys for difference in found.differences),
        written_by=table.written_by,
        written_at=table.written_at,
    )
    repair = _repair(candidate, found)
    return candidate.model_copy(
        update={
            "first_rows": first_rows.model_copy(update={"adopted": adopted}),
            "equal_sequence": settings.sequence if adopted.is_equal else 0,
            "repair": repair,
            "repair_sequence": settings.sequence if repair else 0,
        }
    )


def _pinned(
    settings: JobSettings, at: Offset, rows: int, *, requester: Requester, now: dt.datetime
) -> PinnedVerification:
    """Return what to compare: the table as it was found, with the query as of the adopted point."""
    job, first_rows = settings.definition, settings.first_rows
    if first_rows is None or job.backfill_from is None:
        raise InvalidJobError(f"backfill_from: job {job.name} names no table to adopt")
    sample = job.backfill_from.sample or job.vnode_count
    return PinnedVerification(
        number=0,
        job=job.name,
        incarnation=settings.incarnation,
        epoch=settings.base_epoch,
        upstream_version=at,
        others={name: other.point.offset for name, other in settings.others.items()},
        view_version=first_rows.version,
        view_table_id="",
        read=read_vnodes(settings.initial_state, settings.scan, settings.position_order, job.vnodes),
        by_key=not resolved_query_of(settings).holds_distribution_key(settings),
        steps=sampled(job.vnode_count, sample, rows, f"{first_rows.location}@{first_rows.version}"),
        begun_by=requester,
        begun_at=now,
    )


def sampled(vnode_count: int, sample: int, rows: int, seed: str) -> tuple[VnodeRange, ...]:
    """
    Return the ranges of vnodes to compare.

    A hash spreads rows over vnodes, so vnodes beside each other are as good a sample as any, and cost one filter.

    :param sample: how many.
    :param rows: estimated rows of the upstream.
    :param seed: decides where the sample begins.
    """
    begin = zlib.crc32(seed.encode()) % (vnode_count - sample + 1)
    steps = steps_of(sample, rows=rows * sample // vnode_count)
    return tuple((begin + first, begin + last) for first, last in steps)


def _vnodes_in(pinned: PinnedVerification) -> int:
    return sum(last - first + 1 for first, last in pinned.steps)


def _repair(settings: JobSettings, found: Verification) -> Repair:
    """Return the repair of what differs; of all vnodes, if hidden columns have to be filled."""
    job = settings.definition
    if settings.state_columns:
        return Repair(vnodes=tuple(range(job.vnode_count)))
    chosen = found.repair if shape_of(job).has_keys else found.repair_by_unit
    return chosen(job.vnode_count, MOST_KEYS)


def _difference(settings: JobSettings, found: Verification) -> str:
    job, first_rows = settings.definition, settings.first_rows
    counts: Counter[str] = Counter()
    for difference in found.differences:
        counts.update(difference.model_dump(exclude={"vnode"}))
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    columns = sorted({column for key in found.keys for column in key.columns})
    of_columns = f"; of the first of them, {', '.join(columns)} differ" if columns else ""
    version = "" if first_rows is None else f"version {first_rows.version} of {first_rows.location}"
    return (
        f"backfill_from: {version} differs from the query as of {job.upstream.offset_name} "
        f"{found.pinned.upstream_version} of {job.upstream.location}: {sum(counts.values()):,} keys in "
        f"{len(found.differences):,} of {_vnodes_in(found.pinned):,} compared vnodes ({kinds}){of_columns}. Correct "
        "as_of or the query, or set backfill_from.repair: true, and the first epoch repairs them"
    )
