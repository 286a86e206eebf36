"""
The control table of a job's verifications: what each compares, and the results of its steps.

The first verification creates the table. The epoch protocol does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from airflow_backfill_provider.core.errors import NotVerifiedError
from airflow_backfill_provider.core.status.verification import (
    AskedVerification,
    ComparedVnodes,
    PinnedVerification,
    Verification,
)
from airflow_backfill_provider.state import records
from airflow_backfill_provider.state.conditions import AtLeast
from airflow_backfill_provider.state.control_table import ControlTable, Write
from airflow_backfill_provider.state.recovery import VERIFICATIONS

ASKED = "asked"
BEGUN = "begun"
COMPARED = "compared"

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("event", pa.string()),
        ("incarnation", pa.string()),
        ("epoch", pa.int64()),
        ("upstream_version", pa.int64()),
        ("view_version", pa.int64()),
        ("first_vnode", pa.int32()),
        ("last_vnode", pa.int32()),
        ("expected_rows", pa.int64()),
        ("found_rows", pa.int64()),
        ("differing_vnodes", pa.int64()),
        ("differing_keys", pa.int64()),
        ("requested_by", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("record", pa.string()),
    ]
)

_RECENT = 8
"""The number of newest verifications that are searched before all others."""


class Verifications:
    """
    Reads and writes a job's verifications.

    :param state: folder of the control tables, ``BackfillJob.state``.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, state: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.table = ControlTable(f"{state}/{VERIFICATIONS}", SCHEMA, storage_options)

    def newest(self, incarnation: str) -> Verification | None:
        """Return the newest verification of an incarnation, finished or not, if there is a recent one."""
        return next(iter(self._recent(incarnation)), None)

    def newest_finished(self, incarnation: str) -> Verification | None:
        """Return the newest finished verification of an incarnation, if there is one."""
        return next((found for found in self._recent(incarnation) if found.finished), None) or next(
            (found for found in self.all() if found.pinned.incarnation == incarnation and found.finished), None
        )

    def all(self) -> list[Verification]:
        """Return all verifications of the job, newest first."""
        return self._parse(self.table.read()) if self.table.exists() else []

    def waiting(self, incarnation: str) -> AskedVerification | None:
        """Return the requested verification, unless a verification has begun since the request."""
        if not self.table.exists():
            return None
        _, rows = self.table.read_last("number", 1)
        asked = [
            records.parse(AskedVerification, entry["record"], self.table.location) for entry in _entries(rows, ASKED)
        ]
        return next((found for found in asked if found.incarnation == incarnation), None)

    def ask(self, make: Callable[[int], AskedVerification]) -> AskedVerification:
        """
        Record the request for a verification.

        :param make: gets the number and returns the request.
        """
        asked: list[AskedVerification] = []

        def decide(rows: pa.Table) -> Write:
            asked[:] = [make(_next_number(rows))]
            return Write(_asked_row(asked[0]))

        self.table.create()
        self.table.update(decide, reading=self._newest())
        return asked[0]

    def begin(self, pin: Callable[[int], PinnedVerification]) -> Verification:
        """
        Record the beginning of a verification.

        :param pin: gets the number and returns what the verification compares.
        """
        self.table.create()
        begun: list[PinnedVerification] = []

        def decide(rows: pa.Table) -> Write:
            begun[:] = [pin(_next_number(rows))]
            return Write(_begun_row(begun[0]))

        self.table.update(decide, reading=self._newest())
        return Verification(begun[0])

    def record(self, pinned: PinnedVerification, compared: ComparedVnodes) -> Verification:
        """
        Record the result of a step; a no-op if it is recorded already.

        :returns: the verification with all results so far.
        :raises NotVerifiedError: if the verification is missing in the table.
        """

        def decide(rows: pa.Table) -> Write | None:
            known = self._one(rows, pinned)
            return None if known.with_step(compared) == known else Write(_compared_row(pinned, compared))

        # Only this verification is needed, and there may be many others.
        self.table.update(decide, reading=AtLeast("number", pinned.number))
        return self._one(self.table.read_since("number", pinned.number), pinned)

    def _newest(self) -> AtLeast:
        """Return the condition for the rows that determine the number of the next verification."""
        return AtLeast("number", self.table.greatest("number"))

    def _recent(self, incarnation: str) -> list[Verification]:
        if not self.table.exists():
            return []
        _, rows = self.table.read_last("number", _RECENT)
        return [found for found in self._parse(rows) if found.pinned.incarnation == incarnation]

    def _one(self, rows: pa.Table, pinned: PinnedVerification) -> Verification:
        found = next((found for found in self._parse(rows) if found.pinned == pinned), None)
        if found is None:
            raise NotVerifiedError(
                f"verification {pinned.number} of job {pinned.job} is missing in control table {self.table.location}; "
                "start a new verification"
            )
        return found

    def _parse(self, rows: pa.Table) -> list[Verification]:
        """Parse verifications, newest first."""
        found: dict[int, Verification] = {}
        for entry in _entries(rows, BEGUN):
            found[entry["number"]] = Verification(
                records.parse(PinnedVerification, entry["record"], self.table.location)
            )
        for entry in _entries(rows, COMPARED):
            if entry["number"] in found:
                step = records.parse(ComparedVnodes, entry["record"], self.table.location)
                found[entry["number"]] = found[entry["number"]].with_step(step)
        return [found[number] for number in sorted(found, reverse=True)]


def _entries(rows: pa.Table, event: str) -> list[dict[str, Any]]:
    entries = rows.select(["number", "event", "record"]).to_pylist()
    return [entry for entry in entries if entry["event"] == event]


def _next_number(rows: pa.Table) -> int:
    return int(max(rows.column("number").to_pylist(), default=0)) + 1


def _asked_row(asked: AskedVerification) -> pa.Table:
    row = {
        "number": asked.number,
        "event": ASKED,
        "incarnation": asked.incarnation,
        "requested_by": asked.requested_by,
        "at": asked.requested_at,
        "record": asked.model_dump_json(),
    }
    return pa.Table.from_pylist([row], schema=SCHEMA)


def _begun_row(pinned: PinnedVerification) -> pa.Table:
    return _row(pinned, event=BEGUN, at=pinned.begun_at, record=pinned.model_dump_json())


def _compared_row(pinned: PinnedVerification, compared: ComparedVnodes) -> pa.Table:
    return _row(
        pinned,
        event=COMPARED,
        first_vnode=compared.first,
        last_vnode=compared.last,
        expected_rows=compared.expected_rows,
        found_rows=compared.found_rows,
        differing_vnodes=len(compared.differences),
        differing_keys=sum(difference.keys for difference in compared.differences),
        at=compared.compared_at,
        record=compared.model_dump_json(),
    )


def _row(pinned: PinnedVerification, **columns: object) -> pa.Table:
    common = {
        "number": pinned.number,
        "incarnation": pinned.incarnation,
        "epoch": pinned.epoch,
        "upstream_version": pinned.upstream_version.number,
        "view_version": pinned.view_version,
        "requested_by": str(pinned.begun_by),
    }
    return pa.Table.from_pylist([{**common, **columns}], schema=SCHEMA)
