"""What the tests of change logs land in them, and how they look at it."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor

from deltalake import DeltaTable

from airflow_backfill_provider.sources.shared.change_log.changes import LoggedChange, LoggedKind

ORIGIN = "postgresql system 1, database 2, slot mine"
AT = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)


def minute(number):
    return AT + dt.timedelta(minutes=number)


def change(offset, number=1, kind=LoggedKind.INSERT, of="5", **fields):
    """A change that was committed as many minutes after the first as its offset says."""
    known = {"transaction": 1_000 + offset, "committed_at": minute(offset), "table": of, "kind": kind}
    return LoggedChange(offset=offset, number=number, **{**known, **fields})


HISTORY = [
    change(15, kind=LoggedKind.COLUMNS, new={"id": "long"}),
    change(15, 2, new={"id": "1"}),
    change(15, 3, of="6", new={"id": "9"}),
    change(20, kind=LoggedKind.MARK, of="", new={"text": "read"}),
    change(25, kind=LoggedKind.TRUNCATE),
    change(25, 2, kind=LoggedKind.TRUNCATE),
    change(25, 3, of="6", kind=LoggedKind.TRUNCATE),
    change(28, kind=LoggedKind.COLUMNS, new={"id": "long", "note": "<point>"}),
    change(28, 2, kind=LoggedKind.DELETE, old={"id": "1"}),
]
"""What is landed through 30, in two landings: (10, 20] and (20, 30]."""


def rows_of(log):
    """Offset, number and kind of what was landed, without the row that says where the log begins."""
    rows = DeltaTable(log.location).to_pyarrow_table().sort_by([("offset", "ascending"), ("number", "ascending")])
    first, *others = [(row["offset"], row["number"], row["kind"]) for row in rows.to_pylist()]
    assert first[1:] == (0, "gap")
    return others


def elsewhere(call):
    """Call something as another process would: not within what this one is doing in deltalake."""
    with ThreadPoolExecutor(1) as other:
        other.submit(call).result()
