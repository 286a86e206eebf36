"""A folder into which files are put, and a job over it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.engine.lakehouse import Lakehouse

SCHEMA = "id BIGINT, name STRING, price DECIMAL(12,2)"


class Landing:
    """A folder into which files are put."""

    def __init__(self, house: Lakehouse, kind: str) -> None:
        self.house = house
        self.kind = kind
        self.folder = house.folder / "landing"
        self.folder.mkdir()
        self.rows: list[tuple[int, str]] = []

    def put(self, name: str, first: int, count: int = 10) -> Path:
        """Put a file with some rows there."""
        rows = [(first + number, f'n "{number}", ü') for number in range(count)]
        file = self.folder / f"{name}.{self.kind}"
        file.parent.mkdir(parents=True, exist_ok=True)
        if self.kind == "parquet":
            ids, names = zip(*rows, strict=True)
            pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "name": names}), file, row_group_size=3)
        else:
            lines = [self._line(number, text) for number, text in rows]
            header = ["id,name,price"] if self.kind == "csv" else []
            # A blank line is no row, and the last line needs no end.
            file.write_text("\n".join([*header, *lines[:2], " ", *lines[2:]]), encoding="utf-8")
        self.rows += rows
        return file

    def _line(self, number: int, text: str) -> str:
        if self.kind == "json":
            return json.dumps({"id": number, "name": text, "price": 1.25})
        quoted = text.replace('"', '""')
        return f'{number},"{quoted}",1.25'

    def create(self, **fields: Any) -> None:
        """Create a job over the folder."""
        of_upstream = {"path": str(self.folder), "format": self.kind, "schema": SCHEMA, **fields.pop("files", {})}
        self.house.create(
            upstream={"files": of_upstream}, **{"query": "SELECT id, name, price FROM upstream", **fields}
        )

    def assert_read(self) -> None:
        """Check that the view has every row once."""
        found = [(row["id"], row["name"]) for row in self.house.view().collect()]
        assert sorted(found) == sorted(self.rows)
