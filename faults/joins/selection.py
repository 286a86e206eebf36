"""Draws the FROM and the WHERE of one SELECT: relations, how each is joined to those before it, semi and anti joins."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from faults.joins.roles import Relations, Role, RoleColumn
from faults.joins.tables import JoinedTable, are_comparable
from faults.joins.words import COMPARISONS
from faults.shapes.case import Column

Tie = tuple[RoleColumn, Column]
"""A column of a relation that is there, and a column of the new one, that have to be equal."""

_JOINS = (
    *("inner", "inner", "inner", "left", "left", "left", "left", "right", "using", "using", "comma", "semi"),
    *("exists", "exists", "in", "in"),
)


class Selection:
    """
    Draws one FROM and WHERE.

    :param random: the case's random generator.
    :param relations: the relations of the whole query.
    :param joins: the number of relations after the first one, at most.
    """

    def __init__(self, random: random.Random, relations: Relations, joins: int) -> None:
        self._random = random
        self._relations = relations
        first = relations.drawn(relations.any_table())
        self.roles = [first]
        """The relations whose columns can be selected."""
        self.are_inner = True
        """Whether all of them are joined by inner joins, so that any one may lead."""
        self.merged: set[str] = set()
        """The columns of USING, in lower case."""
        self._text = first.text
        self._where: list[str] = []
        self._in_from = 0
        self._after_commas: list[tuple[list[Tie], Role]] = []
        # What WHERE says is named only once all relations of FROM are known.
        for how in sorted((random.choice(_JOINS) for _ in range(joins)), key=_order):
            self._join(how)
        if joins and not self.has_joins:
            self._on("JOIN", first.table)
        self._where += [self._matching(ties, role, self.roles) for ties, role in self._after_commas]
        if random.random() < 0.35:
            self._where.append(self._condition())
        random.shuffle(self._where)

    @property
    def has_joins(self) -> bool:
        """Whether it reads more than one relation."""
        return bool(self._in_from or self._where)

    @property
    def text(self) -> str:
        """FROM and WHERE."""
        return f"FROM {self._text}" + (f" WHERE {' AND '.join(self._where)}" if self._where else "")

    @property
    def columns(self) -> list[RoleColumn]:
        """All columns that can be selected."""
        return [RoleColumn(role, column) for role in self.roles for column in role.columns]

    def name(self, column: RoleColumn) -> str:
        """Return a name of a column."""
        return self._relations.names.of(column, self.roles)

    def _condition(self) -> str:
        return self._relations.names.condition(self._random.choice(self.columns), self.roles)

    def _join(self, how: str) -> None:
        """Join any other relation, if any columns can be compared."""
        table = self._relations.any_table()
        match how:
            case "inner":
                self._on(self._random.choice(("JOIN", "INNER JOIN")), table)
            case "left":
                self._on(self._random.choice(("LEFT JOIN", "LEFT OUTER JOIN")), table, is_optional=True)
            case "right":
                self._right(table)
            case "using":
                self._using(table)
            case "comma":
                self._comma(table)
            case "semi":
                self._semi(table)
            case "exists":
                self._exists(table)
            case _:
                self._in(table)

    def _on(self, join: str, table: JoinedTable, *, is_optional: bool = False) -> None:
        place = self.roles[-1].place
        ties = self._ties([role for role in self.roles if role.place == place], table)
        if not ties:
            return
        role = replace(self._relations.drawn(table), is_optional=is_optional, place=place)
        self._text += f" {join} {role.text} ON {self._matching(ties, role, [*self.roles, role])}"
        self._add(role)

    def _semi(self, table: JoinedTable) -> None:
        """Join a relation that only filters, and whose columns are not seen after it."""
        seen, are_inner = list(self.roles), self.are_inner
        self._on(f"LEFT {self._random.choice(('SEMI', 'ANTI'))} JOIN", table)
        self.roles, self.are_inner = seen, are_inner

    def _right(self, table: JoinedTable) -> None:
        """Begin with a RIGHT JOIN, which is a LEFT JOIN with its sides swapped."""
        ties = self._ties(self.roles, table)
        if self._in_from or not ties:
            return
        left = replace(self.roles[0], is_optional=True)
        role = self._relations.drawn(table)
        # The left side hangs on the right one, whose columns are never null for a match.
        matching = self._matching(ties, role, [left, role])
        self._text += f" RIGHT {self._random.choice(('', 'OUTER '))}JOIN {role.text} ON {matching}"
        self.roles = [left]
        self._add(role)
        self.are_inner = False

    def _using(self, table: JoinedTable) -> None:
        """Join by columns of one name, which exactly one relation before has."""
        place = self.roles[-1].place
        named = [(column, self._having(column)) for column in table.joinable]
        shared = [
            column
            for column, having in named
            if len(having) == 1 and having[0].role.place == place and are_comparable(having[0].column, column)
        ]
        if not shared:
            return
        columns = self._random.sample(shared, self._random.randint(1, min(2, len(shared))))
        is_optional = self._random.random() < 0.5
        role = replace(self._relations.drawn(table), is_optional=is_optional, place=place)
        names = ", ".join(self._relations.names.quoted(column.name) for column in columns)
        self._text += f" {'LEFT ' if is_optional else ''}JOIN {role.text} USING ({names})"
        self.merged |= {column.name.lower() for column in columns}
        self._add(role)

    def _having(self, column: Column) -> list[RoleColumn]:
        return [one for one in self.columns if one.column.name.lower() == column.name.lower()]

    def _comma(self, table: JoinedTable) -> None:
        """Join by a comma; what has to be equal stands in WHERE."""
        ties = self._ties(self.roles, table)
        if not ties:
            return
        role = replace(self._relations.drawn(table), place=self.roles[-1].place + 1)
        self._text += f", {role.text}"
        self._after_commas.append((ties, role))
        self._add(role)

    def _add(self, role: Role) -> None:
        self.roles.append(role)
        self._in_from += 1
        self.are_inner = self.are_inner and not role.is_optional

    def _exists(self, table: JoinedTable) -> None:
        ties = self._ties(self.roles, table)
        if not ties:
            return
        role = self._relations.drawn(table, is_inside=True)
        inside, text = [role], role.text
        below = self._relations.any_table()
        below_ties = self._ties([role], below)
        if below_ties and self._random.random() < 0.35:
            other = self._relations.drawn(below, is_inside=True)
            join = self._random.choice(("JOIN", "LEFT JOIN"))
            text += f" {join} {other.text} ON {self._matching(below_ties, other, [*inside, other, *self.roles])}"
            inside.append(replace(other, is_optional=join == "LEFT JOIN"))
        where = self._matching(ties, role, [*inside, *self.roles])
        listed = self._random.choice(("1", "*", f"{role.name}.*"))
        denied = self._random.choice(("EXISTS", "NOT EXISTS"))
        self._where.append(f"{denied} (SELECT {listed} FROM {text} WHERE {where})")

    def _in(self, table: JoinedTable) -> None:
        pairs = [
            (outer, column)
            for outer in self._joinable(self.roles)
            for column in table.joinable
            if are_comparable(outer.column, column)
        ]
        if not pairs:
            return
        if self._random.random() < 0.5:
            # NOT IN needs columns that are never null, which few are.
            pairs = [one for one in pairs if one[0].is_never_null and one[1].is_required] or pairs
        ties = self._random.sample(pairs, min(len(pairs), self._random.choice((1, 1, 1, 2))))
        role = self._relations.drawn(table, is_inside=True)
        among = [role, *self.roles]
        listed = ", ".join(self._relations.names.of(RoleColumn(role, column), among) for _, column in ties)
        values = ", ".join(self.name(outer) for outer, _ in ties)
        where = self._further(role, among)
        inner = f"(SELECT {listed} FROM {role.text}{f' WHERE {where}' if where else ''})"
        value = f"({values})" if len(ties) > 1 else values
        forms = ["{v} IN {s}"]
        if all(outer.is_never_null and column.is_required for outer, column in ties):
            forms = ["{v} IN {s}", "{v} NOT IN {s}", "NOT ({v} IN {s})", "NOT {v} IN {s}"]
        self._where.append(self._random.choice(forms).format(v=value, s=inner))

    def _ties(self, seen: Sequence[Role], table: JoinedTable) -> list[Tie]:
        """Return columns that have to be equal: mostly those that contain the new relation's key; none if none can."""
        if self._random.random() < 0.6:
            one = [self._random.choice(list(seen))] if self._random.random() < 0.8 else seen
            found = [self._tie(one, column) for column in table.keys]
            if all(found):
                return [tie for tie in found if tie]
        columns = self._random.sample(table.joinable, self._random.choice((1, 1, 1, 2)))
        return [tie for column in columns if (tie := self._tie(seen, column))]

    def _tie(self, seen: Sequence[Role], column: Column) -> Tie | None:
        found = [one for one in self._joinable(seen) if are_comparable(one.column, column)]
        return (self._random.choice(found), column) if found else None

    def _joinable(self, roles: Sequence[Role]) -> list[RoleColumn]:
        return [RoleColumn(role, column) for role in roles for column in role.table.joinable]

    def _matching(self, ties: Sequence[Tie], role: Role, among: Sequence[Role]) -> str:
        """Return equalities of columns, and further conditions."""
        found = [self._equality(tie, role, among) for tie in ties]
        if self._random.random() < 0.3 and (further := self._further(role, among)):
            found.append(further)
        self._random.shuffle(found)
        return " AND ".join(found)

    def _equality(self, tie: Tie, role: Role, among: Sequence[Role]) -> str:
        names = [self._relations.names.of(one, among) for one in (tie[0], RoleColumn(role, tie[1]))]
        self._random.shuffle(names)
        # <=> with a column that is null without a match would match these, and is refused.
        is_safe = not tie[0].role.is_optional and self._random.random() < 0.15
        return f"{names[0]} {'<=>' if is_safe else '='} {names[1]}"

    def _further(self, role: Role, among: Sequence[Role]) -> str:
        """Return a condition on a new relation, perhaps with the others; empty if there is none."""
        own = RoleColumn(role, self._random.choice(role.columns))
        if self._random.random() < 0.5:
            return self._relations.names.condition(own, among)
        others = [
            RoleColumn(other, column)
            for other in among
            for column in other.columns
            if other is not role and other.place == role.place and column.type == own.column.type != "boolean"
        ]
        if not others:
            return ""
        names = {
            "c": self._relations.names.of(own, among),
            "d": self._relations.names.of(self._random.choice(others), among),
        }
        return self._random.choice(COMPARISONS).format(**names)


def _order(how: str) -> int:
    """Return when a join is drawn: a RIGHT JOIN has to be the first one, and what stands in WHERE comes last."""
    return {"right": 0, "exists": 2, "in": 2}.get(how, 1)
