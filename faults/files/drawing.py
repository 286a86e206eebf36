"""Draws rows, writes them into files, and draws the jobs that read these."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ("id", "small", "price", "at", "day")
SCHEMA = "id BIGINT, small SMALLINT, price DECIMAL(6,2), at TIMESTAMP, day DATE"

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_BAD_TEXTS = {
    "small": (70_000, -32_769, 1.5, "x"),
    "price": (12_345.5, 1.234, "1e9"),
    "at": ("+57971-01-01T00:00:00Z", "0000-06-01T00:00:00Z", "9999-12-31T23:59:59-10:00", 1_767_225_600_000_000),
    "day": ("0000-12-31", "10000-01-01", "2026-02-30"),
}
"""Column → values in JSON and CSV that the column cannot hold."""

_BAD_NUMBERS = {
    "at": (1_767_225_600_000_000_000, 253_402_300_800_000_000, -62_135_596_800_000_001),
    "day": (2_932_897, -719_163, 2**30),
}
"""Column → values in Parquet that its type holds there, and no calendar has."""


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """
    A row of a file.

    :param values: column → value, as the view has it.
    :param bad: the column whose value does not fit; empty if all do.
    :param instead: that value.
    """

    values: dict[str, Any]
    bad: str = ""
    instead: Any = None

    @property
    def id(self) -> int:
        """What identifies the row in the whole case."""
        return int(self.values["id"])

    def corrected(self) -> DrawnRow:
        """Return the row with values that fit."""
        return DrawnRow(self.values)


def some_rows(chance: random.Random, first: int, count: int, kind: str, share_of_bad: float) -> list[DrawnRow]:
    """Draw rows with successive ids."""
    return [_a_row(chance, first + number, kind, share_of_bad) for number in range(count)]


def _a_row(chance: random.Random, number: int, kind: str, share_of_bad: float) -> DrawnRow:
    values = {
        "id": number,
        "small": chance.choice([0, 1, -32_768, 32_767, None]),
        "price": chance.choice([Decimal("0.01"), Decimal("-9999.99"), Decimal("5.00"), None]),
        "at": chance.choice([EPOCH, dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, dt.UTC), None]),
        "day": chance.choice([dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2026, 1, 2), None]),
    }
    if chance.random() >= share_of_bad:
        return DrawnRow(values)
    bad = _BAD_NUMBERS if kind == "parquet" else _BAD_TEXTS
    column = chance.choice(sorted(bad))
    return DrawnRow(values, column, chance.choice(bad[column]))


def write(file: Path, rows: Sequence[DrawnRow], *, is_narrow: bool = False) -> None:
    """
    Write rows into a file, by the ending of its name, under a name that is ignored first.

    :param is_narrow: write a Parquet file with a column of more bits than its declared type.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_name(f"_{file.name}")
    if file.suffix == ".parquet":
        pq.write_table(_table(rows, pa.int32() if is_narrow else pa.int16()), hidden, row_group_size=7)
    else:
        written = _json if file.suffix == ".json" else _csv
        hidden.write_text(written([_texts(row) for row in rows]), encoding="utf-8")
    hidden.rename(file)


def _texts(row: DrawnRow) -> dict[str, Any]:
    texts = {name: _text(value) for name, value in row.values.items()}
    return {**texts, row.bad: row.instead} if row.bad else texts


def _text(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


def _json(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(["" if row[name] is None else row[name] for name in COLUMNS] for row in rows)
    return out.getvalue()


def _table(rows: Sequence[DrawnRow], small: pa.DataType) -> pa.Table:
    def numbers(name: str, unit: Any) -> list[int | None]:
        return [row.instead if row.bad == name else _number(row.values[name], unit) for row in rows]

    return pa.table(
        {
            "id": pa.array([row.id for row in rows], pa.int64()),
            "small": pa.array([row.values["small"] for row in rows], small),
            "price": pa.array([row.values["price"] for row in rows], pa.decimal128(6, 2)),
            "at": pa.array(numbers("at", EPOCH), pa.int64()).cast(pa.timestamp("us", "UTC")),
            "day": pa.array(numbers("day", EPOCH.date()), pa.int32()).cast(pa.date32()),
        }
    )


def _number(value: Any, since: Any) -> int | None:
    if value is None:
        return None
    apart: dt.timedelta = value - since
    return apart.days if not isinstance(value, dt.datetime) else apart // dt.timedelta(microseconds=1)
