"""A union, as a job has it: parsed, and then resolved over the job's upstreams."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from sqlglot.tokenizer_core import TokenType

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.refresh_cost import JOIN
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.shapes.joined.affected import AffectedPlan
from airflow_backfill_provider.shapes.joined.over_join import QueryOverBranches, named, relation_of
from airflow_backfill_provider.shapes.joined.parts import Joining
from airflow_backfill_provider.shapes.joined.query import JoinedQuery, check_joined_query
from airflow_backfill_provider.shapes.joined.refusals import refused
from airflow_backfill_provider.shapes.joined.resolved import ResolvedQuery, resolve
from airflow_backfill_provider.shapes.joined.texts import Reading
from airflow_backfill_provider.shapes.queries import OF_ROWS, SUBQUERY, ColumnOrigin, QueryLineage, Units, Upkeep
from airflow_backfill_provider.shapes.query_text import read_query
from airflow_backfill_provider.shapes.several import Tables, leading

_UPKEEP = Upkeep(
    technique="unit",
    reason="what each branch gives for the rows of its lead that a change affects is computed anew",
    reads="the changes of all upstreams; and all rows of a branch's lead, if a table that it is joined with changed",
    writes="the rows that differ, of all branches in one merge",
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

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of the upstreams that it reads; the one that leads the job is the first."""
        return _first(self.parsed.relations if self.found is None else self._known, self.lead)

    @property
    def leads(self) -> tuple[str, ...]:
        """The upstreams that lead branches, each once; the one that leads the job is the first."""
        found: dict[str, str] = {}
        for join in self.parsed.rows.joins:
            name = next(source.relation for source in join.sources if source.how is Joining.FIRST)
            found.setdefault(name.lower(), name)
        if self.found is not None:
            found = {name.lower(): name for name in self._known if name.lower() in found}
        return _first(tuple(found.values()), self.lead)

    @property
    def joins(self) -> bool:
        """Whether any branch reads more than one relation."""
        return any(len(join.all_sources) > 1 for join in self.parsed.rows.joins)

    def resolved(self, tables: Tables) -> UnionQuery:
        """Return the query resolved over its tables; the first of these leads the job."""
        relations = [relation_of(name, table) for name, table in tables.items()]
        return replace(self, lead=relations[0].name, found=resolve(self.parsed, relations))

    @property
    def read_whole(self) -> tuple[str, ...]:
        """The upstreams that a role reads that leads no branch."""
        others = {node.relation for tree in self.resolution.trees for node in tree.nodes[1:]}
        return tuple(name for name in self._known if name in others)

    def images(self) -> Mapping[str, Sequence[str]]:
        """Return the columns to join by of the upstreams that are read whole."""
        whole = self.read_whole
        return {name: columns for name, columns in self.resolution.old_columns.items() if name in whole}

    def text_over(self, lead: str, others: Mapping[str, str]) -> str:
        """Return the query over other relations, with the hidden columns of branches and keys added."""

        def name(reading: Reading) -> str:
            if not reading.leads:
                return others[reading.relation]
            return lead if reading.relation == self.lead else others[leading(reading.relation)]

        return self.resolution.render(name)

    def plans(self, lead: str) -> tuple[AffectedPlan, ...]:
        """Return how the affected rows of a lead are found, in each of its branches."""
        found = self.resolution
        trees = zip(found.trees, found.affected, strict=True)
        return tuple(plan for tree, plan in trees if tree.lead.relation == lead)

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

    @property
    def _known(self) -> tuple[str, ...]:
        """The names of the upstreams in the job, in the order of the text."""
        return tuple(relation.name for relation in self.resolution.relations)


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
    if parsed.is_distinct:
        raise refused("UNION without ALL", "write UNION ALL, and let another job group the rows of that view")
    if parsed.grouping is not None:
        raise refused(
            "groups over a union",
            "make a view of the union by a job of its own, and group that view by another job once it is finished",
        )
    return UnionQuery(parsed.text, parsed)


def looks_united(text: str) -> bool:
    """Return whether a text has UNION between its queries."""
    try:
        return any(token.token_type == TokenType.UNION for token in read_query(text).tokens)
    except InvalidJobError:
        return False


def _first(names: tuple[str, ...], lead: str) -> tuple[str, ...]:
    return (lead, *(name for name in names if name != lead)) if lead else names
