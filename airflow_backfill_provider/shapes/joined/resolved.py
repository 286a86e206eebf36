"""A query over several relations, resolved over the columns and keys of its upstreams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.shapes.edits import edited
from airflow_backfill_provider.shapes.group.orders import Identity
from airflow_backfill_provider.shapes.group.terms import Meaning, Term, column
from airflow_backfill_provider.shapes.group.units import AddedColumn, Units
from airflow_backfill_provider.shapes.joined.affected import AffectedPlan, affected_plan
from airflow_backfill_provider.shapes.joined.columns import used_columns
from airflow_backfill_provider.shapes.joined.groups import Grouping
from airflow_backfill_provider.shapes.joined.lineage import JoinedLineage, lineage_of
from airflow_backfill_provider.shapes.joined.names import require_names
from airflow_backfill_provider.shapes.joined.outcome import (
    require_keys,
    require_own_names,
    require_own_places,
    require_same_columns,
)
from airflow_backfill_provider.shapes.joined.outputs import Outputs, outputs_of
from airflow_backfill_provider.shapes.joined.parts import Join, Rows, Union
from airflow_backfill_provider.shapes.joined.query import JoinedQuery, check_joined_query
from airflow_backfill_provider.shapes.joined.relations import Relation, by_name
from airflow_backfill_provider.shapes.joined.scopes import scope_of
from airflow_backfill_provider.shapes.joined.texts import Names, Place, places_of, read_edits, render, standalone
from airflow_backfill_provider.shapes.joined.tree import JoinTree, tree_of
from airflow_backfill_provider.shapes.joined.units import BranchKeys, RowUnits, row_units

StateColumns = tuple[tuple[str, str], ...]
"""Hidden columns that keep the state of groups: name and SQL over the rows of a group."""

_TOUCHED = "backfill_touched"
_ROWS = "backfill_rows"


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """
    A query over several relations whose names are resolved.

    :param query: the query.
    :param relations: its upstreams, in the order of the text.
    :param trees: the tree of each branch; one if it is no union.
    :param outputs: the columns that it selects; ``None`` if only Spark knows which.
    :param row_units: the view's columns that identify rows and units; ``None`` if it groups, or removes duplicates.
    """

    query: JoinedQuery
    relations: tuple[Relation, ...]
    trees: tuple[JoinTree, ...]
    outputs: Outputs
    row_units: RowUnits | None

    @property
    def affected(self) -> tuple[AffectedPlan, ...]:
        """How the affected leads of each branch are found."""
        return tuple(map(affected_plan, self.trees))

    @property
    def used_columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each upstream that the query's text reads; keys that it does not name are not among them."""
        return used_columns(self.query.rows, by_name(self.relations))

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each upstream that an epoch reads: those that the query uses, and those of keys."""
        used = self.used_columns
        keys: dict[str, set[str]] = {}
        for tree in self.trees:
            for node in (tree.lead, *tree.fan_outs):
                keys.setdefault(node.relation, set()).update(name.lower() for name in node.key)
        return {
            relation.name: tuple(
                name
                for name in relation.names
                if name in used.get(relation.name, ()) or name.lower() in keys.get(relation.name, ())
            )
            for relation in self.relations
        }

    @property
    def old_columns(self) -> Mapping[str, tuple[str, ...]]:
        """
        The columns of each upstream of which an epoch needs the values before a change.

        Those are the columns to join by; if the query groups, its first stage runs over the rows before the window, and
        needs all that it reads.
        """
        return self.columns if self.query.grouping is not None or self.query.is_distinct else self.image_columns

    @property
    def image_columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each upstream that both images of a changed row are needed of, to find affected leads."""
        found: dict[str, tuple[str, ...]] = {}
        for plan in self.affected:
            for relation, columns in plan.image_columns.items():
                found[relation] = tuple(dict.fromkeys((*found.get(relation, ()), *columns)))
        return found

    @property
    def lineage(self) -> JoinedLineage:
        """The origins of the columns that the query selects."""
        return lineage_of(self.query.rows, by_name(self.relations))

    def render(self, names: Names, state: StateColumns = ()) -> str:
        """
        Return the query over other relations, with the hidden columns of rows or of groups added.

        :param names: returns the relation to read at each place.
        :param state: hidden columns of groups that keep their state.
        """
        if self.query.grouping is None:
            return render(self.query.text, self.query.rows, self._places(), names, self.row_units)
        over, grouping = self._over(names)
        return grouping.text(over.text, self._units(grouping, over.text, state))

    def render_rows(self, names: Names, selected: str) -> str:
        """
        Return the query of the rows that the first grouping step groups, or of which a union removes duplicates.

        :param selected: the list of columns, over the relation that this step reads.
        """
        if self.query.is_distinct:
            over = self._replaced(names)
            return f"SELECT {selected} FROM ({standalone(over.text, over.rows)}) AS {_ROWS}"  # noqa: S608 - checked text
        over, grouping = self._over(names)
        return grouping.rows_text(over.text, over.rows, self._units(grouping, over.text).first, selected)

    def render_units(self, names: Names, columns: Sequence[str], carried: str = "") -> str:
        """
        Return the query of the groups of rows, one for each row that is grouped.

        :param columns: the names of the unit columns.
        :param carried: the name of a column of the lead that is passed on beside them, where a join's own SELECT is the
            first step that groups; empty for none.
        """
        if self.query.is_distinct:
            listed = zip(self._distinct_columns(), columns, strict=True)
            return self.render_rows(names, ", ".join(f"{quote(output)} AS {quote(name)}" for output, name in listed))
        over, grouping = self._over(names)
        return grouping.units_text(over.text, over.rows, self._units(grouping, over.text), columns, carried)

    def render_slice(self, names: Names, touched: str, columns: Sequence[str], state: StateColumns = ()) -> str:
        """
        Return the query of some groups, with the hidden columns of its groups added.

        :param touched: name of the relation with the units.
        :param columns: the names of its columns.
        :param state: as of :meth:`render`.
        """
        if self.query.is_distinct:
            listed = zip(self._distinct_columns(), columns, strict=True)
            on = " AND ".join(f"{_ROWS}.{quote(output)} <=> {_TOUCHED}.{quote(name)}" for output, name in listed)
            return (
                f"SELECT {_ROWS}.* FROM ({self.render(names)}) AS {_ROWS} "  # noqa: S608 - names are quoted
                f"LEFT SEMI JOIN {quote(touched)} AS {_TOUCHED} ON {on}"
            )
        over, grouping = self._over(names)
        return grouping.slice_text(over.text, self._units(grouping, over.text, state), touched, columns)

    def group_columns(self) -> tuple[str, ...]:
        """
        Return the view's columns that identify a group, hidden or not; none if all rows are one group.

        :raises TypeError: if the query does not group.
        """
        return self.group_units().outputs

    def lead_column(self, meaning: Meaning) -> str | None:
        """
        Return the column of the lead that an expression of a join's own SELECT is, unchanged.

        :returns: ``None`` if it is another expression, or another table's column.
        """
        base = self.query.rows.base
        parts, dots = meaning[::2], meaning[1::2]
        if not isinstance(base, Join) or not parts or any(dot != "." for dot in dots):
            return None
        found = scope_of(base.sources, by_name(self.relations)).find(parts)
        return found.origin if found is not None and found.role.name == self.trees[0].lead.role else None

    def group_units(self) -> Units:
        """
        Return what identifies a group, by the expressions of the query's text; of a union's rows, all of their columns.

        :raises TypeError: if the query does not group.
        """
        if self.query.is_distinct:
            names = self._distinct_columns()
            return Units(0, tuple(Term((), column(name), name) for name in names), names, ())
        if self.query.grouping is None:
            raise TypeError("the query does not group")
        return self._units(self.query.grouping, self.query.text)

    def _distinct_columns(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.outputs or ())

    def _places(self) -> tuple[Place, ...]:
        return tuple(places_of(self.query.rows, self.trees))

    def _units(self, grouping: Grouping, text: str, state: StateColumns = ()) -> Units:
        taken = self.query.words | {name.lower() for relation in self.relations for name in relation.names}
        units = grouping.units(text, taken)
        return replace(units, added=(*units.added, *(AddedColumn(units.first, sql, name) for name, sql in state)))

    def _replaced(self, names: Names) -> JoinedQuery:
        """Return the query with other relations in place of its upstreams."""
        return check_joined_query(edited(self.query.text, read_edits(self._places(), names)))

    def _over(self, names: Names) -> tuple[JoinedQuery, Grouping]:
        over = self._replaced(names)
        if over.grouping is None:
            raise TypeError("the query does not group")
        return over, over.grouping


def resolve(query: JoinedQuery, upstreams: Sequence[Relation], lead: str = "") -> ResolvedQuery:
    """
    Resolve a query over its upstreams.

    :param upstreams: the upstreams.
    :param lead: the upstream that leads, or its alias in the query; by default the first one in FROM.
    :raises InvalidJobError: if a name is ambiguous, a relation is not tied to the others, or rows cannot be told apart.
    """
    query.require_relations([relation.name for relation in upstreams])
    known = by_name(upstreams)
    if lead and query.is_union:
        raise InvalidJobError("lead: each branch of a union has a lead, the first relation in its FROM; leave it out")
    require_names(query.rows, known)
    joins = list(query.rows.joins)
    trees = tuple(tree_of(join, known, lead) for join in joins)
    outputs = outputs_of(query.rows, known)
    require_same_columns(query.rows, known)
    is_of_rows = query.grouping is None and not query.is_distinct
    if query.grouping is None:
        require_own_names(outputs, is_distinct=query.is_distinct)
    else:
        _check_groups(query, query.grouping, known, trees)
    require_own_places(joins, trees)
    if is_of_rows:
        for join, tree in zip(joins, trees, strict=True):
            require_keys(join, tree)
    units = _row_units(query, known, trees) if is_of_rows else None
    relations = tuple(known[name.lower()] for name in query.relations)
    return ResolvedQuery(query, relations, trees, outputs, units)


def _row_units(query: JoinedQuery, known: Mapping[str, Relation], trees: Sequence[JoinTree]) -> RowUnits:
    base = query.rows.base
    branches = base.branches if isinstance(base, Union) else (Rows(base, ()),)
    keys = [
        BranchKeys(tree, outputs_of(branch, known), tuple(known.values()))
        for tree, branch in zip(trees, branches, strict=True)
    ]
    taken = query.words | {name.lower() for relation in known.values() for name in relation.names}
    return row_units(keys, query.rows.levels, taken)


def _check_groups(
    query: JoinedQuery, grouping: Grouping, known: Mapping[str, Relation], trees: Sequence[JoinTree]
) -> None:
    base = query.rows.base
    if not isinstance(base, Join):
        names = outputs_of(Rows(base, ()), known) or ()
        grouping.require_names(None, frozenset(output.name.lower() for output in names))
        grouping.require_orders(None, ("the key of a branch",))
        return
    scope = scope_of(base.sources, known)
    grouping.require_names(scope, frozenset().union(*(role.gives for role in scope.roles)))
    identity, key = _identity(base, known, trees[0])
    grouping.require_orders(identity, key)


def _identity(join: Join, known: Mapping[str, Relation], tree: JoinTree) -> tuple[Identity | None, tuple[str, ...]]:
    """Return what identifies a row of a join, as its own SELECT can name it."""
    scope = scope_of(join.sources, known)
    found, names = [], []
    for node in (tree.lead, *tree.fan_outs):
        role = next(role for role in scope.roles if role.name == node.role)
        for key in node.key:
            given = [output for output, origin in role.unchanged.items() if origin.lower() == key.lower()]
            alone = [name for name in given if sum(name in other.gives for other in scope.roles) == 1]
            found.append(frozenset({*((role.name.lower(), ".", name) for name in given), *((name,) for name in alone)}))
            names.append(f"{role.name}.{key}")
    return (tuple(found) if all(found) else None), tuple(names)
