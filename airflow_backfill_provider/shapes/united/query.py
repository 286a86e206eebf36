"""A union, as a job has it: parsed, and then resolved over the job's upstreams."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

from sqlglot.tokenizer_core import TokenType

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.refresh_cost import JOIN
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.shapes.joined.over_branches import QueryOverBranches, named
from airflow_backfill_provider.shapes.joined.query import JoinedQuery, check_joined_query
from airflow_backfill_provider.shapes.joined.resolved import ResolvedQuery
from airflow_backfill_provider.shapes.queries import OF_ROWS, SUBQUERY, ColumnOrigin, QueryLineage, Units, Upkeep
from airflow_backfill_provider.shapes.query_text import read_query

_UPKEEP = Upkeep(
    technique="unit",
    reason="what each branch gives for the rows of its lead that a change affects is computed anew",
    reads="the changes of all upstreams; and all rows of a branch's lead, if a table that it is joined with changed",
    writes="the rows that differ, of all branches in one commit",
    reads_all=False,
    cost=JOIN,
)

BRANCH_TYPE = "integer"
"""The type of the column with the number of a row's branch."""


@dataclass(frozen=True)
class UnionQuery(QueryOverBranches):
    """
    Branches with UNION ALL between them.

    :param text: the checked tokens as the user wrote them, without comments and a closing semicolon.
    :param parsed: its parts.
    :param lead: the upstream that leads the job; empty before the query is resolved.
    :param found: the query over its upstreams; ``None`` before it is resolved.
    """

    plan_nodes: ClassVar[Collection[str]] = OF_ROWS | {"Join", "Union", SUBQUERY}

    text: str
    parsed: JoinedQuery
    lead: str = ""
    found: ResolvedQuery | None = None

    def over(self, found: ResolvedQuery, lead: str) -> Self:
        """Return the query resolved over its upstreams."""
        return replace(self, found=found, lead=lead)

    @property
    def unit_order(self) -> KeyOrder:
        """The columns of a unit, with their types."""
        units = self.row_columns
        types = [BRANCH_TYPE, *(column.type for column in units.columns if column.of_unit)]
        fields = (KeyField(name=name, type=kind) for name, kind in zip(units.unit, types, strict=True))
        return KeyOrder(tuple(fields))

    def units(self, settings: JobSettings, *, by_key: bool) -> Units:
        """Return the number of the branch, and the keys of leads; a unit's vnode is computed from these."""
        del settings, by_key
        return Units(order=self.unit_order, outputs=self.row_columns.unit, hashed=None)

    def holds_distribution_key(self, settings: JobSettings) -> bool:
        """Return true: units have no vnode of an upstream's row."""
        del settings
        return True

    def upkeep(self, *, created: bool) -> Upkeep:
        """Return how a finished view is kept up to date."""
        del created
        return _UPKEEP

    def lineage(self, columns: Sequence[str], key: Sequence[str], upstream_names: Collection[str]) -> QueryLineage:
        """Return the origins of the columns that the query selects; the number of a branch has none."""
        del columns, key, upstream_names
        selected = self.selected_lineage
        return QueryLineage({**selected.columns, **dict(self._hidden_keys())}, selected.filtered_by)

    def _hidden_keys(self) -> Iterator[tuple[str, ColumnOrigin]]:
        roles = [{node.role: node.relation for node in tree.nodes} for tree in self.resolution.trees]
        for column in self.row_columns.columns:
            if column.is_hidden:
                held = zip(roles, column.sources, strict=True)
                inputs = [(relations[key.role], key.column) for relations, key in held if key is not None]
                yield column.output, ColumnOrigin(named(dict.fromkeys(inputs)), unchanged=False)


@lru_cache(maxsize=256)
def check_union_query(text: str) -> UnionQuery:
    """
    Check that a query unites branches.

    :raises InvalidJobError: with the construct that is not allowed and what to write instead, or with the position of a
        syntax error.
    """
    parsed = check_joined_query(text)
    if not parsed.is_union:
        raise InvalidJobError("query: it has no UNION ALL")
    if parsed.is_distinct or parsed.grouping is not None:
        raise InvalidJobError("query: it groups the rows of a union")
    return UnionQuery(parsed.text, parsed)


def looks_united(text: str) -> bool:
    """Return whether a text has UNION between its queries."""
    try:
        return any(token.token_type == TokenType.UNION for token in read_query(text).tokens)
    except InvalidJobError:
        return False
