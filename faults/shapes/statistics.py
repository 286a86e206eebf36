"""Statistics of data files as other writers write them: exact, partial, rounded, or wrong."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from faults.shapes.case import Column
from faults.shapes.rows import Row

_CUT = 32


def statistics(kind: str, columns: Sequence[Column], rows: Sequence[Row], names: Sequence[str]) -> str | None:
    """
    Return the statistics of a file for the log.

    :param kind: how correct they are.
    :param columns: the columns of the file.
    :param names: the columns' names in the statistics.
    :returns: JSON, or invalid JSON; ``None`` for no statistics.
    """
    fixed = {"none": None, "empty": "{}", "garbage": '{"numRecords": ', "counts": f'{{"numRecords": {len(rows)}}}'}
    if kind in fixed:
        return fixed[kind]
    lower, upper, nulls = [], [], []
    for i, (column, name) in enumerate(zip(columns, names, strict=True)):
        if kind == "partial" and i % 2:
            continue
        values = [row[i] for row in rows if row[i] is not None]
        missing = {"no nulls": 0, "all nulls": len(rows)}.get(kind, len(rows) - len(values))
        if "<" not in column.type and column.type != "variant":
            nulls.append(f"{json.dumps(name)}:{missing}")
        bounds = _bounds(kind, column.type, values)
        if bounds is not None:
            lower.append(f"{json.dumps(name)}:{bounds[0]}")
            upper.append(f"{json.dumps(name)}:{bounds[1]}")
    count = {"fewer": max(len(rows) - 7, 0), "more": len(rows) + 7}.get(kind, len(rows))
    parts = [] if kind == "bounds" else [f'"numRecords":{count}']
    parts += [f'"{name}":{{{",".join(found)}}}' for name, found in (("minValues", lower), ("maxValues", upper))]
    return "{" + ",".join([*parts, f'"nullCount":{{{",".join(nulls)}}}']) + "}"


def _bounds(kind: str, type_: str, values: list[Any]) -> tuple[str, str] | None:
    if not values or "<" in type_ or type_ in {"binary", "boolean", "float", "double", "variant"}:
        return None
    values = sorted(values, key=lambda value: value.encode() if isinstance(value, str) else value)
    if kind == "narrow":
        values = values[len(values) // 3 : len(values) - len(values) // 3] or values[:1]
    elif kind == "shifted":
        values = values[len(values) // 2 :]
    exact = kind != "rounded"
    return _written(values[0], exact=exact, is_upper=False), _written(values[-1], exact=exact, is_upper=True)


def _written(value: Any, *, exact: bool, is_upper: bool) -> str:
    if isinstance(value, Decimal):
        return format(value, "f") if exact else json.dumps(float(value))
    if isinstance(value, dt.datetime):
        return json.dumps(_moment(value, exact=exact))
    if isinstance(value, dt.date):
        return json.dumps(value.isoformat())
    if isinstance(value, str) and len(value) > _CUT:
        return json.dumps(value[:_CUT] + ("\U0010ffff" if exact and is_upper else ""))
    return json.dumps(value)


def _moment(value: dt.datetime, *, exact: bool) -> str:
    # Delta's own writers also truncate to milliseconds.
    text = value.replace(tzinfo=None).isoformat(timespec="milliseconds" if exact else "seconds")
    return text + ("Z" if value.tzinfo else "")
