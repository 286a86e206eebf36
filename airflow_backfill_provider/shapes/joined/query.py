"""
A query over several relations, checked and parsed.

Its text alone tells its relations, how they are joined, and its branches. Whose column a name is, only the tables'
columns tell, and a lookup differs from a fan-out by their keys. So a query is first checked by its text, when a job is
defined, and then resolved over its upstreams, when the job is created
(:mod:`~airflow_backfill_provider.shapes.joined.resolved`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.joined.checks import refuse_constructs
from airflow_backfill_provider.shapes.joined.groups import Grouping, grouping_of
from airflow_backfill_provider.shapes.joined.parts import Joining, Rows, Union
from airflow_backfill_provider.shapes.joined.reading import read_rows
from airflow_backfill_provider.shapes.joined.refusals import unsupported
from airflow_backfill_provider.shapes.query_text import read_query


@dataclass(frozen=True, slots=True)
class JoinedQuery:
    """
    A query over several relations.

    :param text: the checked tokens as the user wrote them, without comments and a closing semicolon.
    :param rows: its parts.
    :param grouping: its steps, if it groups; ``None`` if each row of the view depends on one row of a join or union.
    :param words: all words of the query, lower-cased.
    """

    text: str
    rows: Rows
    grouping: Grouping | None
    words: frozenset[str]

    @property
    def relations(self) -> tuple[str, ...]:
        """The upstreams that it reads, as it first writes each; the one that leads is the first."""
        joins = list(self.rows.joins)
        lead = next(source.relation for source in joins[0].sources if source.how is Joining.FIRST)
        found = {lead.lower(): lead}
        for join in joins:
            for source in join.all_sources:
                found.setdefault(source.relation.lower(), source.relation)
        return tuple(found.values())

    @property
    def is_union(self) -> bool:
        """Whether it has several branches."""
        return isinstance(self.rows.base, Union)

    @property
    def is_distinct(self) -> bool:
        """Whether a union removes duplicates of all its branches; then its units are its rows."""
        return isinstance(self.rows.base, Union) and self.rows.base.is_distinct

    def require_relations(self, upstreams: Sequence[str]) -> None:
        """
        Refuse a query that reads other relations than a job's upstreams, or not all of them.

        :param upstreams: their names.
        :raises InvalidJobError: with the name.
        """
        known = {name.lower() for name in upstreams}
        read = {name.lower() for name in self.relations}
        if other := next((name for name in self.relations if name.lower() not in known), None):
            raise InvalidJobError(
                f"the query reads {other}, which is not under upstreams; it may read {', '.join(upstreams)}"
            )
        if unread := next((name for name in upstreams if name.lower() not in read), None):
            raise InvalidJobError(f"upstreams: the query does not read {unread}; remove it, or join it")


@lru_cache(maxsize=256)
def check_joined_query(text: str) -> JoinedQuery:
    """
    Check that a query joins relations, or unites their rows.

    :raises InvalidJobError: with the construct that is not allowed and what to write instead, or with the position of a
        syntax error.
    """
    query = read_query(text)
    rows = read_rows(query)
    if rows.base is None:
        raise unsupported("one relation alone")
    refuse_constructs(query, rows)
    grouping = grouping_of(rows)
    if isinstance(rows.base, Union) and rows.base.is_distinct and (rows.levels or grouping):
        raise unsupported("UNION without ALL inside FROM")
    return JoinedQuery(query.text, rows, grouping, frozenset(token.text.lower() for token in query.tokens))
