"""What queries over joins and unions have in common as jobs have them: parsed, and then resolved over the upstreams."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Self

from airflow_backfill_provider.shapes.joined.affected import AffectedPlan
from airflow_backfill_provider.shapes.joined.parts import Joining, Union
from airflow_backfill_provider.shapes.joined.query import JoinedQuery
from airflow_backfill_provider.shapes.joined.relations import Relation, RelationColumn
from airflow_backfill_provider.shapes.joined.resolved import ResolvedQuery, resolve
from airflow_backfill_provider.shapes.joined.spread import spreads
from airflow_backfill_provider.shapes.joined.texts import Names, Reading
from airflow_backfill_provider.shapes.joined.units import RowUnits
from airflow_backfill_provider.shapes.queries import ColumnOrigin, QueryLineage
from airflow_backfill_provider.shapes.several import QueryOverSeveral, QueryTable, Tables, leading
from airflow_backfill_provider.shapes.spread import Branch, MostRows, touched_by, upstreams_of


class QueryOverBranches(QueryOverSeveral):
    """A query over branches, each a lead that may be joined with dimensions; a join is one branch."""

    parsed: JoinedQuery
    """Its parts."""

    lead: str
    """The upstream that leads the job; empty before the query is resolved."""

    found: ResolvedQuery | None
    """The query over its upstreams; ``None`` before it is resolved."""

    @abstractmethod
    def over(self, found: ResolvedQuery, lead: str) -> Self:
        """Return the query resolved over its upstreams, of which one leads the job."""

    def resolved(self, tables: Tables) -> Self:
        """Return the query resolved over its tables; the first of these leads the job."""
        relations = [relation_of(name, table) for name, table in tables.items()]
        lead = relations[0].name
        found = resolve(self.parsed, relations)
        if not self.parsed.is_union and found.trees[0].lead.relation != lead:
            found = resolve(self.parsed, relations, lead)
        return self.over(found, lead)

    @property
    def resolution(self) -> ResolvedQuery:
        """
        The query over its upstreams.

        :raises TypeError: if it is not resolved.
        """
        if self.found is None:
            raise TypeError("the query is not resolved over its upstreams")
        return self.found

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of the upstreams that it reads; the one that leads the job is the first."""
        return self._led(self.parsed.relations if self.found is None else self._known)

    @property
    def leads(self) -> tuple[str, ...]:
        """The upstreams that lead branches, each once; the one that leads the job is the first."""
        if self.found is None:
            firsts = (source for join in self.parsed.rows.joins for source in join.sources)
            names = [source.relation for source in firsts if source.how is Joining.FIRST]
        else:
            names = [tree.lead.relation for tree in self.found.trees]
        once: dict[str, str] = {}
        for name in names:
            once.setdefault(name.lower(), name)
        return self._led(tuple(once.values()))

    @property
    def joins(self) -> bool:
        """Whether any branch reads more than one relation."""
        return any(len(join.all_sources) > 1 for join in self.parsed.rows.joins)

    @property
    def read_whole(self) -> tuple[str, ...]:
        """The upstreams that a role reads that leads no branch."""
        others = {node.relation for tree in self.resolution.trees for node in tree.nodes[1:]}
        return tuple(name for name in self.relations if name in others)

    def images(self) -> Mapping[str, Sequence[str]]:
        """Return the columns to join by of the upstreams that are read whole."""
        whole = self.read_whole
        return {name: columns for name, columns in self.resolution.image_columns.items() if name in whole}

    def plans(self, lead: str) -> tuple[AffectedPlan, ...]:
        """Return how the affected rows of a lead are found, in each of its branches."""
        found = self.resolution
        trees = zip(found.trees, found.affected, strict=True)
        return tuple(plan for tree, plan in trees if tree.lead.relation == lead)

    def text_over(self, lead: str, others: Mapping[str, str]) -> str:
        """Return the query over other relations, with the view's hidden columns added."""
        return self.resolution.render(self.names(lead, others))

    def names(self, lead: str, others: Mapping[str, str]) -> Names:
        """
        Return the relation to read at each place of the query.

        :param lead: the relation to read where the job's lead leads a branch.
        :param others: those to read in all other places, as of :meth:`text_over`.
        """

        def name(place: Reading) -> str:
            if not place.leads:
                return others[place.relation]
            return lead if place.relation == self.lead else others[leading(place.relation)]

        return name

    @property
    def row_columns(self) -> RowUnits:
        """
        The view's columns that identify its rows.

        :raises TypeError: if the query groups rows, which then cannot be told apart.
        """
        units = self.resolution.row_units
        if units is None:
            raise TypeError("the rows of a query that groups cannot be told apart")
        return units

    @property
    def has_steps(self) -> bool:
        """Whether subqueries may rename columns."""
        rows = self.parsed.rows
        branches = rows.base.branches if isinstance(rows.base, Union) else ()
        levels = any(part.levels for part in (rows, *branches))
        return levels or any(source.steps for join in rows.joins for source in join.all_sources)

    @property
    def keyed(self) -> frozenset[str]:
        """The upstreams whose rows are looked up by their key, or told apart by it in a fan-out."""
        nodes = (node for tree in self.resolution.trees for node in tree.nodes[1:])
        return frozenset(node.relation for node in nodes if not node.how.is_filter)

    def branches(self, rows: Mapping[str, int], most: MostRows) -> Sequence[Branch]:
        """Return the branches, each with what a changed row touches in it."""
        trees = self.resolution.trees
        return [Branch(lead=tree.lead.relation, spreads=spreads(tree, rows, most)) for tree in trees]

    def affected_by(self, rows: Mapping[str, int]) -> Mapping[str, float]:
        """Return how many rows of leads a changed row of an upstream affects, in all branches and roles together."""
        branches = self.branches(rows, lambda _upstream, _columns: None)
        return {name: touched_by(branches, name).mean for name in upstreams_of(branches)}

    def used_columns(self) -> Mapping[str, Sequence[str]]:
        """Return the columns of each upstream that an epoch reads."""
        return self.resolution.columns

    def decided_by_unit(self, wanted: Collection[str], key: Sequence[str], available: Sequence[str]) -> Collection[str]:
        """Return those of some columns of the view that are computed from the keys of leads alone."""
        keys = {f"{tree.lead.relation}.{name}" for tree in self.resolution.trees for name in tree.lead.key}
        found = self.lineage(available, key, available).columns
        return [name for name in wanted if name in found and keys.issuperset(found[name].inputs)]

    @property
    def selected_lineage(self) -> QueryLineage:
        """The origins of the columns that the query selects."""
        found = self.resolution.lineage
        columns = {name: ColumnOrigin(named(one.inputs), one.unchanged) for name, one in found.columns.items()}
        return QueryLineage(columns, named(found.filtered_by))

    @property
    def _known(self) -> tuple[str, ...]:
        """The names of the upstreams in the job, in the order of the text."""
        return tuple(relation.name for relation in self.resolution.relations)

    def _led(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return (self.lead, *(name for name in names if name != self.lead)) if self.lead else names


def named(inputs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return columns of upstreams by their names and those of the upstreams."""
    return tuple(f"{relation}.{column}" for relation, column in inputs)


def relation_of(name: str, table: QueryTable) -> Relation:
    """Return an upstream of a job as a relation of its query."""
    columns = (
        RelationColumn(column, kind, nullable=column not in table.required) for column, kind in table.types.items()
    )
    return Relation(name, tuple(columns), table.key)
