"""A case: an upstream, a job and the changes between its epochs, as plain values that print as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_TRUE_STATISTICS = frozenset({"", "exact", "spark", "none", "empty", "counts", "bounds", "partial"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """
    One column of the upstream.

    :param name: its name in the table.
    :param type: Delta's name of its type, or ``char(n)``, ``varchar(n)``, ``variant``, or a nested type in SQL.
    :param stored: its name in the data files, if different.
    :param few: its values come from a small pool, without empty texts, so it may be a partition column.
    :param clause: the rest of its DDL in Spark after the type, such as a DEFAULT.
    :param computed: the expression of a generated column; writers then give no value.
    :param widened_from: its narrower type when the table was made.
    """

    name: str
    type: str
    stored: str = ""
    few: bool = False
    clause: str = ""
    computed: str = ""
    widened_from: str = ""

    @property
    def is_required(self) -> bool:
        """Whether the table refuses nulls."""
        return "NOT NULL" in self.clause


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """
    The changes before an epoch.

    :param changes: kinds of changes, each a version of the upstream.
    :param alters: statements that change the table's definition for columns that the job does not use.
    :param settings: settings of the epoch's Spark session, in addition to the usual ones.
    """

    changes: tuple[str, ...] = ()
    alters: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    One upstream, one job.

    :param rows_seed: the seed of the rows and of their changes.
    :param writer: the writer that makes the upstream and changes it.
    :param columns: the columns that the expected rows have.
    :param extra: DDL of columns that only the table has, such as an IDENTITY column.
    :param key: the key columns, each with its direction.
    :param rows: the number of first rows.
    :param files: the number of their files.
    :param in_order: whether the files are cut in key order.
    :param layout: the rest of the table's DDL in Spark after the columns.
    :param partition: the partition column.
    :param properties: properties of the upstream's table, in addition to the change data feed.
    :param constraints: CHECK constraints.
    :param statistics: how correct the statistics of the data files are, if the writer chooses them.
    :param odd_files: how columns in the data files differ from the schema: ``upper``, ``reordered`` or not.
    :param mapping: the mode of column mapping, if the log is made by hand.
    :param job: fields of the job, except paths and key.
    :param gaps: the changes before each of the first epochs.
    :param beyond: the changes before each epoch after the one that finished the view.
    :param verified: whether the package's own comparison must agree at the end.
    """

    rows_seed: int
    writer: str
    columns: tuple[Column, ...]
    extra: tuple[str, ...] = ()
    key: tuple[tuple[str, bool], ...]
    rows: int
    files: int
    in_order: bool = False
    layout: str = ""
    partition: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    statistics: str = ""
    odd_files: str = ""
    mapping: str = ""
    job: Mapping[str, Any] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    beyond: tuple[Gap, ...] = ()
    verified: bool = False

    @property
    def written(self) -> tuple[Column, ...]:
        """The columns whose values writers give."""
        return tuple(column for column in self.columns if not column.computed)

    def described(self, name: str) -> str:
        """
        Return the upstream in one line.

        :param name: what queries call it.
        """
        columns = ", ".join(f"{column.name} {column.type} {column.clause}".strip() for column in self.columns)
        key = ", ".join(column for column, _ in self.key)
        return f"{name} ({columns}) by {key}, {self.rows} rows of {self.writer}"

    @property
    def key_indices(self) -> tuple[int, ...]:
        """The indexes of the key columns among the written ones."""
        names = [column.name for column in self.written]
        return tuple(names.index(name) for name, _ in self.key)

    @property
    def alters(self) -> bool:
        """Whether the table's definition changes during the case."""
        return any(gap.alters for gap in (*self.gaps, *self.beyond))

    @property
    def sets(self) -> bool:
        """Whether an epoch runs with other settings than the usual ones."""
        return any(gap.settings for gap in (*self.gaps, *self.beyond))

    def as_json(self) -> str:
        """Return everything that was drawn, without defaults."""
        return json.dumps(_unusual(asdict(self)), ensure_ascii=True)

    @property
    def lies(self) -> bool:
        """Whether statistics are false; then missing rows may be detected late, but before the view is finished."""
        return self.statistics not in _TRUE_STATISTICS

    def summary(self) -> str:
        """Return a description of the case in one line."""
        kinds = ", ".join(f"{column.name!a} {column.type}" for column in self.columns)
        key = ", ".join(f"{name!a} DESC" if down else ascii(name) for name, down in self.key)
        properties = ", ".join(f"{name}={value}" for name, value in self.properties.items())
        parts = (
            self.writer,
            f"{self.statistics} statistics" if self.statistics else "",
            f"{self.odd_files} files" if self.odd_files else "",
            f"columns by {self.mapping}" if self.mapping else "",
            f"key {key}",
            kinds,
            self.layout,
            ", ".join(self.extra),
            properties,
            f"{self.job['strategy']}, {self.job['visibility']}",
            self.job["query"],
        )
        return _one_line(" | ".join(filter(None, parts)))


def _one_line(text: str) -> str:
    """Return a text with all characters escaped that a terminal may not print."""
    return " ".join(text.split("\n")).encode("ascii", "backslashreplace").decode()


def _unusual(value: Any) -> Any:
    """Leave out empty and false fields."""
    if isinstance(value, dict):
        return {name: _unusual(one) for name, one in value.items() if one or (one == 0 and one is not False)}
    if isinstance(value, list | tuple):
        return [_unusual(one) for one in value]
    return value
