"""
The control table of differences that were computed before a cut-over; see
:mod:`airflow_backfill_provider.core.status.view_difference`.

The first difference creates the table. The epoch protocol does not depend on it: an approval has what it was about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from airflow_backfill_provider.core.status.view_difference import ViewDifference
from airflow_backfill_provider.state import records
from airflow_backfill_provider.state.conditions import AtLeast
from airflow_backfill_provider.state.control_table import ControlTable, Write
from airflow_backfill_provider.state.recovery import DIFFERENCES

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("kind", pa.string()),
        ("incarnation", pa.string()),
        ("served_version", pa.int64()),
        ("waiting_version", pa.int64()),
        ("rows_before", pa.int64()),
        ("rows_after", pa.int64()),
        ("added", pa.int64()),
        ("removed", pa.int64()),
        ("changed", pa.int64()),
        ("requested_by", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("record", pa.string()),
    ]
)


class Differences:
    """
    Reads and writes the differences of a job.

    :param state: folder of the control tables, ``BackfillJob.state``.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, state: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.table = ControlTable(f"{state}/{DIFFERENCES}", SCHEMA, storage_options)

    def newest(self) -> ViewDifference | None:
        """Return the newest difference, of whatever cut-over; ``None`` if there is none."""
        if not self.table.exists():
            return None
        _, rows = self.table.read_last("number", 1)
        return next(iter(self._parse(rows)), None)

    def numbered(self, number: int) -> ViewDifference | None:
        """Return the difference with a number; ``None`` if there is none."""
        if not self.table.exists():
            return None
        found = self._parse(self.table.read_since("number", number))
        return next((difference for difference in found if difference.number == number), None)

    def record(self, make: Callable[[int], ViewDifference]) -> ViewDifference:
        """
        Record a difference.

        :param make: gets the number and returns the difference.
        """
        self.table.create()
        made: list[ViewDifference] = []

        def decide(rows: pa.Table) -> Write:
            made[:] = [make(int(max(rows.column("number").to_pylist(), default=0)) + 1)]
            return Write(_row(made[0]))

        self.table.update(decide, reading=AtLeast("number", self.table.greatest("number")))
        return made[0]

    def _parse(self, rows: pa.Table) -> list[ViewDifference]:
        texts = rows.column("record").to_pylist()
        return [records.parse(ViewDifference, text, self.table.location) for text in texts]


def _row(found: ViewDifference) -> pa.Table:
    served = found.sides.served
    row = {
        "number": found.number,
        "kind": found.subject.kind.value,
        "incarnation": found.subject.incarnation,
        "served_version": None if served is None else served.view_version,
        "waiting_version": found.sides.waiting.view_version,
        "rows_before": found.rows.rows_before,
        "rows_after": found.rows.rows_after,
        "added": found.rows.added,
        "removed": found.rows.removed,
        "changed": found.rows.changed,
        "requested_by": found.requested_by,
        "at": found.compared_at,
        "record": found.model_dump_json(),
    }
    return pa.Table.from_pylist([row], schema=SCHEMA)
