"""A case: tables with their changes, and a view over them that keeps former rows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_backfill_provider.core.job.keep import Keep
from faults.groups.tables import a_table, an_upstream
from faults.joins.case import Changes, named
from faults.joins.tables import some_tables
from faults.lives.case import some_changes
from faults.lives.queries import ChainedQuery, QueriesOverOne, QueriesOverSeveral
from faults.lives.tables import UPSTREAM, DrawnTable

STEPS = 5
"""How often the tables change, and epochs run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """
    Some tables, and a view with a past.

    :param tables: the tables.
    :param seed: the seed of everything that happens to the job.
    :param query: the query. Of one table, it selects the key, or all that it groups by, first.
    :param identity: how many of its columns identify a row, or a group; ``None`` if none need to.
    :param by_version: whether the view keeps rows as of each version.
    :param fields: the job's other fields.
    :param begins_earlier: whether the view begins at the table's first version, and not when the job is created.
    :param changes: changes of the tables before the job is created, and before each step.
    """

    tables: tuple[DrawnTable, ...]
    seed: int
    query: str
    identity: int | None
    by_version: bool
    fields: Mapping[str, Any]
    begins_earlier: bool
    changes: tuple[Changes, ...]

    @property
    def keep(self) -> Keep:
        """Which rows the view keeps."""
        return Keep(self.fields["keep"])

    def summary(self) -> str:
        """Return a description in one line."""
        tables, changes = "; ".join(map(str, self.tables)), "; ".join(map(named, self.changes))
        earlier = " from before the job" if self.begins_earlier else ""
        text = f"{tables} | {dict(self.fields)}{earlier} | {changes} | {self.query}"
        return " ".join(text.split()).encode("ascii", "backslashreplace").decode()


def a_past(random: random.Random) -> Past:
    """Return a case; a third of them have several tables."""
    return _over_several(random) if random.random() < 0.35 else _over_one(random)


def _over_one(random: random.Random) -> Past:
    table = a_table(random)
    query = QueriesOverOne(random, table).first(keyed=True)
    drawn = (DrawnTable(UPSTREAM, table, an_upstream(random, table)),)
    return _kept(random, drawn, query, len(query.grouped or table.key))


def _over_several(random: random.Random) -> Past:
    tables = some_tables(random)
    chain = QueriesOverSeveral(random, tables)
    drawn = tuple(DrawnTable(one.name, one, one.upstream) for one in tables if one.name in chain.tables)
    query = chain.first(keyed=True)
    # A row of a join is known by hidden columns, if at all.
    return _kept(random, drawn, query, len(query.grouped) or None)


def _kept(random: random.Random, tables: tuple[DrawnTable, ...], query: ChainedQuery, identity: int | None) -> Past:
    names = [one.name for one in tables]
    by_version = names == [UPSTREAM] and not query.grouped
    fields: dict[str, Any] = {
        "vnode_count": random.choice((1, 3)),
        "keep": random.choice(("history", "history", "deleted")),
        "table_properties": {"delta.enableDeletionVectors": random.choice(("true", "false"))},
    }
    if query.grouped and names == [UPSTREAM] and random.random() < 0.3:
        fields["valid_by"] = "epoch"
    strategy = random.choice(("snapshot", "snapshot", "no_shuffle", "arrangement"))
    # Joined rows are read group by group only if the SELECT that groups joins the tables themselves.
    if strategy == "snapshot" or (query.grouped and (strategy == "no_shuffle" or names != [UPSTREAM])):
        fields["strategy"] = "snapshot"
    else:
        fields |= {"strategy": strategy, "rate_limit": random.choice((None, 7, 20))}
    return Past(
        tables=tables,
        seed=random.randrange(10**9),
        query=query.text,
        identity=identity,
        by_version=by_version,
        fields=fields,
        begins_earlier=by_version and fields["strategy"] == "snapshot" and random.random() < 0.5,
        changes=tuple(some_changes(random, names) for _ in range(STEPS + 1)),
    )
