"""Small views over several upstreams, played window by window, without chance and without faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.model.groups_attempt import attempt
from tests.model.groups_job import Strategy
from tests.model.groups_mutants import BY_KEYS
from tests.model.groups_queries import GroupQuery
from tests.model.groups_scan import READ, UNREAD, Barrier
from tests.model.joins_job import JoinedJob, JoinProtocol
from tests.model.joins_queries import BY_LEAD, JoinQuery
from tests.model.joins_stage1 import Stage1
from tests.model.joins_tables import Record, Table
from tests.model.truth import Output

Versions = list[list[Record]]
"""The rows of a table at each instant."""


def a_view(
    query: JoinQuery,
    tables: Mapping[str, Versions],
    stage_2: GroupQuery = BY_LEAD,
    protocol: JoinProtocol | None = None,
    strategy: Strategy = BY_KEYS,
) -> JoinedJob:
    """Return a view that has read all history as of instant 0."""
    world = {name: Table(versions[0]) for name, versions in tables.items()}
    for name, versions in tables.items():
        for instant, rows in enumerate(versions[1:], 1):
            if rows != versions[instant - 1]:
                world[name].commit(instant, rows)
    latest = max(len(versions) for versions in tables.values()) - 1
    job = JoinedJob(Stage1(world, query, latest), stage_2, strategy, 0, protocol or JoinProtocol())
    _run(job, 0)
    return job


def after_windows(job: JoinedJob, *ends: int) -> list[Output]:
    """Run an epoch up to each of these instants; return what a reader sees, in order."""
    for end in ends:
        _run(job, end)
    return sorted(job.query.visible(job.view.rows()).elements(), key=repr)


def labels(rows: Iterable[Output]) -> list[Output]:
    """Return of each row without stage 2 the lead's key, and the label of each dimension."""
    return [(lead.key, *(found and found.label for found in found)) for *_, (lead, *found) in rows]


def _run(job: JoinedJob, end: int) -> None:
    is_first = job.epoch == 0
    before = ((UNREAD,) if is_first else (READ,)) * job.scan.vnodes
    barrier = Barrier(
        epoch=job.epoch + 1,
        start=job.committed_to,
        end=end,
        before=before,
        after=(READ,) * job.scan.vnodes,
        filter_by=before,
        changes_after=job.committed_to,
        arranged_up_to=job.committed_to,
        is_arranged=job.keeps_arrangement,
        applies=True,
        publishes=True,
        is_steady=not is_first,
        parts=1,
        commits="one",
        since=job.since,
    )
    for _ in attempt(job, barrier, [0]):
        pass
