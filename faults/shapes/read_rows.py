"""The rows of an upstream that a job has read, according to its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, position_of
from faults.shapes.case import Case
from faults.shapes.rows import Row


def read_rows(
    rows: Sequence[Row], state: BackfillState, *, case: Case, vnodes: Callable[[Sequence[Row]], Sequence[int]]
) -> list[Row]:
    """
    Return the rows that were read in the order of their keys.

    :param rows: all rows of the job.
    :param vnodes: returns the vnode of each row; it is only called if vnodes have different positions.
    """
    order, key = key_order(case), key_of(case)

    def is_read(row: Row, vnode: int) -> bool:
        match state.vnodes[vnode]:
            case Completed():
                return True
            case InProgress(position=position):
                return order.compare(key(row), position) <= 0
            case _:
                return False

    positions = {Completed if isinstance(one, Completed) else position_of(one) for one in state.vnodes}
    found = vnodes(rows) if len(positions) > 1 else [0] * len(rows)
    return [row for row, vnode in zip(rows, found, strict=True) if is_read(row, vnode)]


def key_of(case: Case) -> Callable[[Row], tuple[Any, ...]]:
    """Return a function that returns the key of a row."""
    indices = case.key_indices
    return lambda row: tuple(row[i] for i in indices)


def key_order(case: Case) -> KeyOrder:
    """Return the order of an upstream's keys."""
    types = {column.name: "string" if "char(" in column.type else column.type for column in case.columns}
    return KeyOrder(tuple(KeyField(name=name, type=types[name], descending=down) for name, down in case.key))
