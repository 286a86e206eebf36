"""
The tree of a join: by which columns each relation hangs on another one, from the lead down.

A row of the lead depends only on the rows of other relations that a chain of equalities leads to. So a change finds the
leads that it affects by following these chains up (:mod:`~airflow_backfill_provider.shapes.joined.affected`). What else
ON and WHERE say narrows these rows, and needs no further thought.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.joined.edges import Candidate, Edge, candidates
from airflow_backfill_provider.shapes.joined.parts import Join, Joining
from airflow_backfill_provider.shapes.joined.refusals import no_equality, refused, unsupported
from airflow_backfill_provider.shapes.joined.relations import Relation
from airflow_backfill_provider.shapes.joined.scopes import Found, Role


@dataclass(frozen=True, slots=True)
class Pair:
    """
    Two columns that must be equal for a match, by the upstreams' names.

    :param parent: the parent's column.
    :param column: the relation's own column.
    :param null_safe: whether two nulls are equal.
    """

    parent: str
    column: str
    null_safe: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """
    A role in the tree of a join.

    :param role: its name in the query.
    :param relation: the upstream that it reads.
    :param how: how it is joined.
    :param parent: the role that it hangs on; empty for the lead.
    :param pairs: the equal columns of the parent and of this role; none for the lead.
    :param is_lookup: whether its join columns contain its key, so that it has one match at most. Otherwise it fans out.
    :param key: the key of the upstream.
    :param has_conditions: whether further conditions decide about a match.
    """

    role: str
    relation: str
    how: Joining
    parent: str
    pairs: tuple[Pair, ...]
    is_lookup: bool
    key: tuple[str, ...]
    has_conditions: bool = False

    @property
    def fans_out(self) -> bool:
        """Whether the join has several rows for one of its parent's, so that a row needs its key, too."""
        return not self.is_lookup and not self.how.is_filter


@dataclass(frozen=True, slots=True)
class JoinTree:
    """
    The tree of a join.

    :param nodes: its roles; the lead is the first one, and each other one comes after its parent.
    """

    nodes: tuple[Node, ...]

    @property
    def lead(self) -> Node:
        """The role whose key identifies a unit."""
        return self.nodes[0]

    @property
    def fan_outs(self) -> tuple[Node, ...]:
        """The roles whose keys identify a row within a unit."""
        return tuple(node for node in self.nodes[1:] if node.fans_out)

    def children(self, role: str) -> tuple[Node, ...]:
        """Return the roles that hang on a role."""
        return tuple(node for node in self.nodes if node.parent == role and node is not self.lead)

    def roles_of(self, relation: str) -> tuple[Node, ...]:
        """Return the roles of an upstream."""
        return tuple(node for node in self.nodes if node.relation == relation)


def tree_of(join: Join, relations: Mapping[str, Relation], lead: str = "") -> JoinTree:
    """
    Return the tree of a join.

    :param relations: the upstreams by name in lower case.
    :param lead: the upstream that leads, or its role; by default the first one in FROM.
    :raises InvalidJobError: if a relation has no equality of columns that ties it to the others.
    """
    rest = list(candidates(join, relations))
    first = _lead(rest, lead)
    rest = [one for one in rest if one is not first]
    nodes = [_node(first, None, (), is_lookup=True)]
    placed = [first]
    while rest:
        tied = [(found, links) for found in rest if (links := _links(found, placed))]
        if not tied:
            raise _untied(rest[0])
        found, links = next(((one, ties) for one, ties in tied if _is_lookup(one, ties)), tied[0])
        parent = _parent(found, links, placed)
        own = tuple(dict.fromkeys(link.pair for link in links if link.parent is parent))
        nodes.append(_node(found, parent, own, is_lookup=_is_lookup(found, links)))
        placed.append(found)
        rest = [one for one in rest if one is not found]
    return JoinTree(tuple(nodes))


@dataclass(frozen=True, slots=True)
class _Link:
    """An equality with a role that the tree already has."""

    parent: Candidate
    pair: Pair
    is_exact: bool
    """Whether different values of the role's column are never equal to one value of the parent's."""


def _lead(found: Sequence[Candidate], lead: str) -> Candidate:
    first = next(one for one in found if one.how is Joining.FIRST and one.block is None)
    if not lead:
        return first
    wanted = [one for one in found if lead.lower() in {one.role.name.lower(), one.role.relation.name.lower()}]
    kept = [one for one in wanted if one.how in {Joining.FIRST, Joining.INNER}]
    if not wanted:
        raise InvalidJobError(f"lead: the query does not read {lead}; name one of its relations")
    if not kept:
        raise InvalidJobError(
            f"lead: {lead} is joined so that rows of {first.role.name} without a match are kept, or only filters them; "
            f"use lead: {first.role.relation.name}, or leave it out"
        )
    if len(kept) > 1:
        raise InvalidJobError(f"lead: the query reads {lead} several times; name the alias of one of them")
    return kept[0]


def _links(found: Candidate, placed: Sequence[Candidate]) -> list[_Link]:
    """Return the equalities that tie a role to those that are placed."""
    return [link for edge in found.edges for link in _link(edge, found.role, placed)]


def _link(edge: Edge, role: Role, placed: Sequence[Candidate]) -> Iterator[_Link]:
    ends = edge.toward(role)
    if ends is None:
        return
    other, own = ends
    for parent in placed:
        if parent.role is other.role and other.origin and own.origin and not _matches_no_row(edge, other):
            is_exact = role.relation.compares_exactly(own.origin, other.role.relation, other.origin)
            yield _Link(parent, Pair(other.origin, own.origin, edge.null_safe), is_exact)


def _matches_no_row(edge: Edge, parent: Found) -> bool:
    """Return whether an equality also holds where a LEFT JOIN has no match: no row of the parent leads there."""
    return edge.null_safe and parent.role.source.how is Joining.LEFT


def _is_lookup(found: Candidate, links: Sequence[_Link]) -> bool:
    key = found.role.relation.lowered_key
    return bool(key) and key <= {link.pair.column.lower() for link in links if link.is_exact}


def _parent(found: Candidate, links: Sequence[_Link], placed: Sequence[Candidate]) -> Candidate:
    """Return the role to hang on: one that the key ties to by itself, or the first one with the most equalities."""

    def preference(parent: Candidate) -> tuple[bool, int]:
        own = [link for link in links if link.parent is parent]
        return _is_lookup(found, own), len(own)

    return max(placed, key=preference)


def _node(found: Candidate, parent: Candidate | None, pairs: tuple[Pair, ...], *, is_lookup: bool) -> Node:
    how = Joining.FIRST if parent is None else Joining.INNER if found.how is Joining.FIRST else found.how
    return Node(
        role=found.name,
        relation=found.role.relation.name,
        how=how,
        parent="" if parent is None else parent.name,
        pairs=pairs,
        is_lookup=is_lookup,
        key=found.role.relation.key,
        has_conditions=found.conditions > len(pairs),
    )


def _untied(found: Candidate) -> InvalidJobError:
    """Return the error for a role without an equality that ties it to the others."""
    name, ties = found.name, [ends for edge in found.edges if (ends := edge.toward(found.role))]
    if any(end.origin is None for ends in ties for end in ends):
        computed = next(end for ends in ties for end in ends if end.origin is None)
        return refused(
            f"{computed.role.name}.{computed.column} to join by, which is computed, or is a field,",
            "join by a plain column that the steps before the join pass on unchanged",
        )
    for edge in found.edges:
        ends = edge.toward(found.role)
        if ends is not None and _matches_no_row(edge, ends[0]):
            parent = ends[0].role.name
            return refused(
                f"<=> with {parent}.{ends[0].column}, which is null where the LEFT JOIN of {parent} has no match,",
                "write = there",
            )
    if not found.conditions and found.how is Joining.INNER and found.block is None:
        return unsupported("CROSS JOIN")
    return no_equality(name, is_block=found.block is not None)
