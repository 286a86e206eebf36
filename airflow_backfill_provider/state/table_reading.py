"""What is read of a control table, and what is written to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from airflow_backfill_provider.lake.delta_log import Written


def text_literal(value: str) -> str:
    """Return a string literal for a condition."""
    return "'" + value.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Since:
    """The rows from a value of an integer column on; the column grows with the table."""

    column: str
    value: int

    def __str__(self) -> str:
        return f"{self.column} >= {self.value}"


class Write(NamedTuple):
    """What a decision wants to be written."""

    rows: pa.Table
    mode: Literal["append", "overwrite"] = "append"


class Opened(NamedTuple):
    """
    A table as it was opened, for reading alone.

    :param version: the newest version of its log.
    :param end: what that commit's file looks like.
    """

    table: DeltaTable
    version: int
    end: Written
