"""A case: an upstream with its history, and jobs of groups over it, as plain values."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill_provider.shapes.group.query import check_group_query
from faults.groups.queries import a_query
from faults.groups.refused import a_refused_query
from faults.groups.tables import Table, a_table, an_upstream, appended
from faults.shapes.case import Case

STRATEGIES_OF_TABLES = ("arrangement", "snapshot")
"""The strategies of groups that read a table whose rows change."""

JOBS = 2
"""The jobs of a case: the upstream's history is the dearer part of it."""


@dataclass(frozen=True, slots=True)
class GroupJob:
    """
    One job of a case.

    :param query: its query.
    :param seed: the seed of its epochs: when they run, and where attempts die.
    :param refused_for: what its refusal has to name; empty if it has to be accepted.
    :param of_appended: whether it says that rows are only appended; then it may be refused if it does not fold.
    :param fields: the job's other fields.
    """

    query: str
    seed: int
    refused_for: str = ""
    of_appended: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)

    def definition(self, path: str, key: Sequence[str]) -> dict[str, Any]:
        """
        Return the fields of the job.

        :param path: the upstream's path.
        :param key: the columns of its key, which rows that are only appended need not have.
        """
        upstream = {"path": path, "append_only": True} if self.of_appended else {"path": path, "key": list(key)}
        return {"upstream": upstream, "query": self.query, **self.fields}


@dataclass(frozen=True, slots=True)
class GroupsCase:
    """
    One upstream, several jobs.

    :param table: the upstream's columns, by what queries do with them.
    :param upstream: the upstream and its history; its job is given by the jobs.
    :param jobs: the jobs.
    """

    table: Table
    upstream: Case
    jobs: tuple[GroupJob, ...]

    def summary(self) -> str:
        """Return a description in one line."""
        kinds = ", ".join(f"{column.name} {column.type}" for column in self.table.columns)
        changes = "; ".join(", ".join(gap.changes) or "nothing" for gap in self.upstream.gaps)
        queries = " || ".join(job.query for job in self.jobs)
        rows = f"{self.upstream.rows} rows{' that are appended' * self.jobs[0].of_appended}"
        text = f"{self.upstream.writer} | {kinds} | {rows} | {changes} | {queries}"
        return " ".join(text.split()).encode("ascii", "backslashreplace").decode()


def a_case(random: random.Random) -> GroupsCase:
    """Return a case; a tenth of them have queries that must be refused, and in a tenth rows are only appended."""
    table = a_table(random)
    upstream = an_upstream(random, table)
    if random.random() < 0.1:
        refused = [a_refused_query(random, table) for _ in range(JOBS)]
        jobs = tuple(GroupJob(one.query, random.randrange(10**9), one.names) for one in refused)
        return GroupsCase(table, upstream, jobs)
    jobs = tuple(_job(random, a_query(random, table)) for _ in range(JOBS))
    if random.random() < 0.1:
        jobs = tuple(_job_of_appended(random, table) for _ in range(JOBS))
        upstream = appended(random, upstream)
    return GroupsCase(table, upstream, jobs)


def _job_of_appended(random: random.Random, table: Table) -> GroupJob:
    """Return a job over rows that are only appended, with a query that folds, if its text alone decides that."""
    query = a_query(random, table)
    while check_group_query(query).why_not_folded is not None:
        query = a_query(random, table)
    return GroupJob(
        query, random.randrange(10**9), of_appended=True, fields={"rate_limit": random.choice((None, 7, 20))}
    )


def _job(random: random.Random, query: str) -> GroupJob:
    """Return a job that has to be accepted, under one of the strategies that the shape supports."""
    seed, strategy = random.randrange(10**9), random.choice(STRATEGIES_OF_TABLES)
    if strategy == "snapshot" or check_group_query(query).is_global:
        return GroupJob(query, seed)
    # A position of such a strategy lies between units, so its chunks can be small.
    rate_limit, vnode_count = random.choice((None, 7, 20)), random.choice((1, 4))
    return GroupJob(query, seed, fields={"strategy": strategy, "rate_limit": rate_limit, "vnode_count": vnode_count})
