"""
Reads the jobs that tasks and DAG files wrote into Airflow's database.

Who may write a DAG may write any value there. So a value is read as plain JSON, from its text: no class that it names
is made, and a value that cannot be read is no job. It never breaks the page of another DAG.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Never, TypeVar

from sqlalchemy import ColumnElement, SQLColumnExpression, Text, cast

from airflow_backfill_provider.assets import CONNECTION, DEFINITION

IDS_PER_QUERY = 500
"""How many ids a query lists: databases are slow with long lists, and have limits."""

_Id = TypeVar("_Id", str, int)

_NAME = re.compile(r"[a-z0-9_]{1,100}")


@dataclass(frozen=True, slots=True)
class WrittenJob:
    """
    A job as a DAG wrote it.

    :param name: the job's name.
    :param definition: the definition, unchecked except for the name.
    :param backfill_conn_id: the connection with the location of the control tables; empty if the value names none.
    """

    name: str
    definition: Mapping[str, Any]
    backfill_conn_id: str


def text_of(column: SQLColumnExpression[Any]) -> ColumnElement[str]:
    """Return a JSON column as text, so that the driver does not parse it: one broken row would end the query."""
    return cast(column, Text)


def in_batches(ids: Iterable[_Id]) -> Iterator[list[_Id]]:
    """Return ids in lists that a query can take."""
    ordered = sorted(ids)
    for start in range(0, len(ordered), IDS_PER_QUERY):
        yield ordered[start : start + IDS_PER_QUERY]


def written_job(text: str | None) -> WrittenJob | None:
    """
    Read the value of an XCom, or the extra of an asset.

    :returns: ``None`` if it is no job of this package.
    """
    value = _plain(text)
    if not isinstance(value, dict):
        return None
    definition = value.get(DEFINITION)
    connection = value.get(CONNECTION) or ""
    if not isinstance(definition, dict):
        return None
    name = definition.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(connection, str):
        return None
    return WrittenJob(name, definition, connection)


def _plain(text: str | None) -> Any:
    """Return a JSON value, or ``None`` if the text has none that an answer of the API could hold."""
    try:
        value = json.loads(text or "null", parse_constant=_refuse)
        # Before Airflow's Task SDK stored values themselves, it stored their JSON as a text.
        value = json.loads(value, parse_constant=_refuse) if isinstance(value, str) else value
        json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair has no UTF-8
    except (ValueError, RecursionError):
        return None
    return value


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is not JSON")
