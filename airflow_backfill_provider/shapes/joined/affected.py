"""
Which leads a window's changes affect, as a plan of hops that an engine follows.

A relation's changed rows give the values of its join columns, **in their old and in their new images**: a dimension
whose join column is not its key moves between values, and the leads of both are affected. Rows that did not change
themselves may lie on the way: of a role between, the rows *as of the window's end* are looked up whose columns have one
of the values that its children give. They give their own join columns to the role above. What reaches the lead are its
keys. A lead that changed itself is affected in any case.

The rows of these leads, and no others, may differ from those before. Old rows are never joined with new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_backfill_provider.shapes.joined.tree import JoinTree, Node, Pair


@dataclass(frozen=True, slots=True)
class Hop:
    """
    A child's values that rows of its parent are looked up by.

    :param child: the role that gives the values.
    :param pairs: the parent's columns, and those of the child that must equal them. Values are compared as the query
        compares them, with Spark's own equality: a null matches nothing, unless a pair is null-safe.
    """

    child: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class AffectedStep:
    """
    The values that one role gives to its parent; those that the lead gives are the affected keys.

    :param role: the role.
    :param relation: the upstream whose changes and rows are read.
    :param gives: the columns whose values it gives, of two kinds of rows: the changed rows of the upstream in both
        images, and the rows as of the window's end that one of the hops finds.
    :param hops: how rows are found by the values of the role's children; none if it has no children.
    """

    role: str
    relation: str
    gives: tuple[str, ...]
    hops: tuple[Hop, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of rows as of the window's end that it needs; none if no row is looked up."""
        found = (*self.gives, *(pair.parent for hop in self.hops for pair in hop.pairs)) if self.hops else ()
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class AffectedPlan:
    """
    How the affected leads are found.

    :param steps: what each role gives, children before their parents; the last one is the lead's.
    """

    steps: tuple[AffectedStep, ...]

    @property
    def lead(self) -> AffectedStep:
        """The step that gives the keys of the affected leads."""
        return self.steps[-1]

    @property
    def image_columns(self) -> Mapping[str, tuple[str, ...]]:
        """
        The columns of each upstream that both images of a changed row are needed of.

        Those of the lead are its key, which does not change.
        """
        found: dict[str, tuple[str, ...]] = {}
        for step in self.steps:
            found[step.relation] = tuple(dict.fromkeys((*found.get(step.relation, ()), *step.gives)))
        return found

    def after(self, changed: frozenset[str]) -> AffectedPlan:
        """
        Return the plan for a window in which only some upstreams changed, without roles that can give nothing.

        :param changed: the upstreams with changes.
        """
        kept: dict[str, AffectedStep] = {}
        for step in self.steps:
            hops = tuple(hop for hop in step.hops if hop.child in kept)
            if step is self.lead or hops or step.relation in changed:
                kept[step.role] = AffectedStep(step.role, step.relation, step.gives, hops)
        return AffectedPlan(tuple(kept.values()))


def affected_plan(tree: JoinTree) -> AffectedPlan:
    """Return how the affected leads of a join are found."""
    return AffectedPlan(tuple(_step(tree, node) for node in reversed(tree.nodes)))


def _step(tree: JoinTree, node: Node) -> AffectedStep:
    gives = node.key if node is tree.lead else tuple(dict.fromkeys(pair.column for pair in node.pairs))
    hops = tuple(Hop(child.role, child.pairs) for child in tree.children(node.role))
    return AffectedStep(node.role, node.relation, gives, hops)
