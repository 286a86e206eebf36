"""Refuses queries whose rows or columns a view could not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from airflow_backfill_provider.shapes.joined.outputs import Outputs, outputs_of
from airflow_backfill_provider.shapes.joined.parts import Join, Rows, Union
from airflow_backfill_provider.shapes.joined.refusals import refused
from airflow_backfill_provider.shapes.joined.relations import Relation
from airflow_backfill_provider.shapes.joined.texts import is_dropped
from airflow_backfill_provider.shapes.joined.tree import JoinTree


def require_same_columns(rows: Rows, known: Mapping[str, Relation]) -> None:
    """Refuse branches with another number of columns."""
    if not isinstance(rows.base, Union):
        return
    found = [outputs_of(branch, known) for branch in rows.base.branches]
    numbers = [len(outputs) for outputs in found if outputs is not None]
    if len(set(numbers)) > 1:
        raise refused(
            f"UNION of branches with {numbers[0]} and {next(one for one in numbers if one != numbers[0])} columns",
            "select the same number of columns in each branch",
        )


def require_own_names(outputs: Outputs, *, is_distinct: bool) -> None:
    """Refuse two columns of the view with one name."""
    names = [output.name.lower() for output in outputs or ()]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise refused(f"two columns named {twice[0]}", "give one of them an alias, or name the columns instead of *")
    if is_distinct and (outputs is None or not all(names)):
        raise refused("UNION of a column without a name", "give each expression of the first branch an alias")


def require_own_places(joins: Sequence[Join], trees: Sequence[JoinTree]) -> None:
    """Refuse a lead that stands in a common table expression that is read twice, also by another branch."""
    every = [source for join in joins for source in join.all_sources]
    for join, tree in zip(joins, trees, strict=True):
        lead = next(
            source for source, role in zip(join.all_sources, join.role_names, strict=True) if role == tree.lead.role
        )
        if sum(source.read == lead.read for source in every) > 1:
            raise refused(
                f"a SELECT over {lead.relation} in WITH that two places read, of which one leads",
                "write that SELECT a second time under another name",
            )


def require_keys(join: Join, tree: JoinTree) -> None:
    """Refuse steps before a join that drop a key where a hidden column with it would be seen elsewhere."""
    sources = dict(zip(join.role_names, join.all_sources, strict=True))
    for node in (tree.lead, *tree.fan_outs):
        source = sources[node.role]
        dropped = [name for name in node.key if is_dropped(name, source)]
        is_shared = sum(other.read == source.read for other in sources.values()) > 1
        if dropped and (is_shared or _is_starred(join, node.role)):
            raise refused(
                f"{source.name}, a SELECT that drops the key {', '.join(dropped)}", "select the key there, too"
            )


def _is_starred(join: Join, role: str) -> bool:
    """Return whether the join's list of columns has a star over a role."""
    stars = [item.unalias() for item in join.level.select.expressions if item.unalias().is_star]
    return any(not isinstance(star, exp.Column) or star.table.lower() == role.lower() for star in stars)
