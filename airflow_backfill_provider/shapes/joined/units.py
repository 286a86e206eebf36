"""
The units of a view over several relations, and the columns that identify its rows.

The unit of a join is a row of its lead: all rows of the view that it has a part in are replaced together. Within a
unit, the keys of relations that fan out tell rows apart; they are null where such a relation has no match. A union has
one more column, the number of the branch. What the query does not select is added in hidden columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from airflow_backfill_provider.shapes.joined.outputs import Outputs
from airflow_backfill_provider.shapes.joined.relations import Relation
from airflow_backfill_provider.shapes.joined.tree import JoinTree, Node
from airflow_backfill_provider.shapes.levels import Level

HIDDEN_KEY_PREFIX = "__key_"
HIDDEN_BRANCH = "__branch"
"""The beginnings of hidden columns' names; they get more underscores if a name of the query begins so."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """
    A column of a key that identifies rows of a branch.

    :param role: the role.
    :param column: the upstream's column.
    :param type: its type.
    :param of_lead: whether it is a part of the lead's key, and so of the unit.
    """

    role: str
    column: str
    type: str
    of_lead: bool


@dataclass(frozen=True, slots=True)
class UnitColumn:
    """
    A column of the view that identifies its rows.

    :param output: its name in the view.
    :param is_hidden: whether it is added to those that the query selects.
    :param of_unit: whether it is a part of the unit; otherwise it only tells the rows of a unit apart.
    :param type: its type.
    :param sources: what it holds in each branch; ``None`` where it is null.
    """

    output: str
    is_hidden: bool
    of_unit: bool
    type: str
    sources: tuple[KeyColumn | None, ...]


@dataclass(frozen=True, slots=True)
class RowUnits:
    """
    The columns that identify the rows and the units of a view of rows.

    :param branch: the hidden column with the branch's number, from 0; empty if there is one branch.
    :param columns: the columns of keys.
    """

    branch: str
    columns: tuple[UnitColumn, ...]

    @property
    def unit(self) -> tuple[str, ...]:
        """The view's columns that identify a unit."""
        branch = (self.branch,) if self.branch else ()
        return (*branch, *(column.output for column in self.columns if column.of_unit))

    @property
    def row(self) -> tuple[str, ...]:
        """The view's columns that identify a row."""
        return (*self.unit, *(column.output for column in self.columns if not column.of_unit))

    @property
    def hidden(self) -> tuple[str, ...]:
        """The view's columns that the query does not select."""
        branch = (self.branch,) if self.branch else ()
        return (*branch, *(column.output for column in self.columns if column.is_hidden))


@dataclass(frozen=True, slots=True)
class BranchKeys:
    """
    A branch with what identifies its rows.

    :param tree: its tree.
    :param outputs: the columns that it gives, before the steps after a union.
    :param relations: the upstreams of its roles.
    """

    tree: JoinTree
    outputs: Outputs
    relations: Sequence[Relation]
    keys: tuple[KeyColumn, ...] = field(init=False)
    """The columns of its keys: the lead's, and those of relations that fan out."""

    def __post_init__(self) -> None:
        types = {relation.name: relation.by_name for relation in self.relations}

        def keys(node: Node, *, of_lead: bool) -> Iterator[KeyColumn]:
            for name in node.key:
                yield KeyColumn(node.role, name, types[node.relation][name.lower()].type, of_lead)

        found = [*keys(self.tree.lead, of_lead=True)]
        for node in self.tree.fan_outs:
            found += keys(node, of_lead=False)
        object.__setattr__(self, "keys", tuple(found))

    def positions(self, key: KeyColumn) -> frozenset[int]:
        """Return the numbers of the branch's columns that hold a column of a key."""
        found = enumerate(self.outputs or ())
        return frozenset(number for number, output in found if output.holds(key.role, key.column))


def row_units(branches: Sequence[BranchKeys], levels: Sequence[Level], taken: Collection[str]) -> RowUnits:
    """
    Return what identifies the rows of a view.

    :param branches: its branches; one if it is no union.
    :param levels: the steps after the union; after a join, the join's own steps.
    :param taken: the names in lower case that hidden columns must not have.
    """
    is_union = len(branches) > 1
    columns = []
    used = set(taken)
    for number, slot in enumerate(_slots(branches)):
        held = _held(branches, slot, levels)
        first = next(key for key in slot if key is not None)
        name = held or _free(f"{HIDDEN_KEY_PREFIX}{number}" if is_union else _own_name(first), used)
        used.add(name.lower())
        columns.append(UnitColumn(name, not held, first.of_lead, first.type, slot))
    return RowUnits(_free(HIDDEN_BRANCH, used) if is_union else "", tuple(columns))


def _slots(branches: Sequence[BranchKeys]) -> Iterator[tuple[KeyColumn | None, ...]]:
    """Yield which columns of keys share a column of the view: those of one type, by their order in each branch."""
    rest = [list(branch.keys) for branch in branches]
    while any(rest):
        wanted = next(keys[0] for keys in rest if keys)
        slot: list[KeyColumn | None] = []
        for keys in rest:
            same = [key for key in keys if (key.type, key.of_lead) == (wanted.type, wanted.of_lead)]
            slot.append(same[0] if same else None)
            if same:
                keys.remove(same[0])
        yield tuple(slot)


def _held(branches: Sequence[BranchKeys], slot: Sequence[KeyColumn | None], levels: Sequence[Level]) -> str:
    """Return the view's column that holds a column of keys in all branches; empty if none does."""
    shared: frozenset[int] | None = None
    for branch, key in zip(branches, slot, strict=True):
        found = frozenset[int]() if key is None else branch.positions(key)
        shared = found if shared is None else shared & found
    outputs = branches[0].outputs or ()
    every = [output.name.lower() for output in outputs]
    for number in sorted(shared or ()):
        if every.count(every[number]) > 1:
            continue  # a later step could not name it
        names = [outputs[number].name]
        for level in levels:
            names = level.passes_on(names)
        if names:
            return names[0]
    return ""


def _own_name(key: KeyColumn) -> str:
    return f"{HIDDEN_KEY_PREFIX}{key.column}" if key.of_lead else f"{HIDDEN_KEY_PREFIX}{key.role}_{key.column}"


def _free(name: str, taken: Collection[str]) -> str:
    while name.lower() in taken:
        name = f"_{name}"
    return name
