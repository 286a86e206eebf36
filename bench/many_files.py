"""A Delta log with very many data files, as of a large and old upstream; only its entries exist, not the files."""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

COLUMNS = 10
ROWS_PER_FILE = 1_000
_COMMITTED_AT = 1_700_000_000_000


def make_log(path: Path, files: int, commits: int) -> None:
    """
    Write the log of a table: commits of equal size, a checkpoint, and a last small commit.

    The key ranges of the files follow each other, but the log lists them in random order, like Spark's checkpoints.

    :param path: the path of the table.
    :param files: the number of data files before the last commit, which adds one.
    :param commits: the number of commits of these files.
    """
    log = path / "_delta_log"
    log.mkdir(parents=True)
    numbers = random.Random(0).sample(range(files), files)
    header = [_protocol(), _metadata()]
    for version in range(commits):
        first, last = files * version // commits, files * (version + 1) // commits
        actions = [*(header if version == 0 else []), *(_added(number) for number in numbers[first:last])]
        _commit(log, version, actions)
    DeltaTable(path).create_checkpoint()
    _commit(log, commits, [_added(files)])


def make_file(path: Path, number: int) -> None:
    """Write a data file that is opened, because a chunk ends or begins inside it."""
    values = pa.array(range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE), pa.int64())
    pq.write_table(pa.table({f"c{index}": values for index in range(COLUMNS)}), path / _name(number))


def _name(number: int) -> str:
    return f"part-{number:08}-{uuid.uuid5(uuid.NAMESPACE_OID, str(number))}-c000.snappy.parquet"


def _commit(log: Path, version: int, actions: list[dict[str, object]]) -> None:
    info = {"commitInfo": {"timestamp": _COMMITTED_AT + version, "operation": "WRITE"}}
    lines = [json.dumps(action, separators=(",", ":")) for action in (info, *actions)]
    (log / f"{version:020}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _protocol() -> dict[str, object]:
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}


def _metadata() -> dict[str, object]:
    fields = [{"name": f"c{index}", "type": "long", "nullable": True, "metadata": {}} for index in range(COLUMNS)]
    return {
        "metaData": {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {"delta.enableChangeDataFeed": "true"},
            "createdTime": _COMMITTED_AT,
        }
    }


def _added(number: int) -> dict[str, object]:
    first = number * ROWS_PER_FILE
    names = [f"c{index}" for index in range(COLUMNS)]
    statistics = {
        "numRecords": ROWS_PER_FILE,
        "minValues": dict.fromkeys(names, first),
        "maxValues": dict.fromkeys(names, first + ROWS_PER_FILE - 1),
        "nullCount": dict.fromkeys(names, 0),
    }
    return {
        "add": {
            "path": _name(number),
            "partitionValues": {},
            "size": 1_000_000,
            "modificationTime": _COMMITTED_AT,
            "dataChange": True,
            "stats": json.dumps(statistics, separators=(",", ":")),
        }
    }
