"""
How many rows of a lead a changed row of another upstream touches, by the numbers of rows.

Each hop from a role up to the lead multiplies: a country touches its customers, and each of these its orders. Nothing
is read for this. A hop counts as if all rows of the parent had a match, and every value to join by was named as often
as any other. So the mean is about right for many changed rows, and may be wrong for a few of them. Who wants to know
the worst case counts the most frequent value of each hop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from airflow_backfill_provider.shapes.joined.tree import JoinTree, Node
from airflow_backfill_provider.shapes.spread import MostRows, Spread


@dataclass(frozen=True, slots=True)
class Reference:
    """
    By which columns the rows of one role name those of another.

    :param upstream: the upstream of the role whose rows are named.
    :param by: the upstream of the role whose rows name them.
    :param columns: the columns of these.
    :param is_single: whether one row at most has one value of them.
    """

    upstream: str
    by: str
    columns: tuple[str, ...]
    is_single: bool

    def spread(self, rows: Mapping[str, int], most: MostRows) -> Spread:
        """Return how many rows a changed row touches over this hop."""
        if self.is_single:
            return Spread(mean=1.0, most=1)
        return Spread(mean=rows[self.by] / max(rows[self.upstream], 1), most=most(self.by, self.columns))


def spreads(tree: JoinTree, rows: Mapping[str, int], most: MostRows) -> Mapping[str, Spread]:
    """
    Return how many rows of the lead a changed row of each upstream touches in the roles below the lead.

    :param rows: the rows of each upstream.
    :param most: counts the most frequent value of columns.
    """
    found: dict[str, Spread] = {}
    for node in tree.nodes[1:]:
        one = reduce(Spread.times, (hop.spread(rows, most) for hop in references(tree, node)))
        before = found.get(node.relation)
        found[node.relation] = one if before is None else before.plus(one)
    return {name: one.capped(rows[tree.lead.relation]) for name, one in found.items()}


def references(tree: JoinTree, node: Node) -> Iterator[Reference]:
    """Yield the hops that lead from a role up to the lead."""
    by_role = {found.role: found for found in tree.nodes}
    while node is not tree.lead:
        parent = by_role[node.parent]
        columns = tuple(dict.fromkeys(pair.parent for pair in node.pairs))
        key = {name.lower() for name in parent.key}
        is_single = bool(key) and key <= {name.lower() for name in columns}
        yield Reference(node.relation, parent.relation, columns, is_single)
        node = parent
