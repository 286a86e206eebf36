"""
Connections to other systems, such as a database, by the id that job definitions name them with.

Credentials are never part of a job's definition. A connection is looked up when it is needed: in the environment
variable ``AIRFLOW_CONN_<ID>``, in which Airflow itself looks first, and then by the registered lookups. On the Airflow
side such a lookup asks Airflow's secrets backends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from airflow_backfill_provider.core.errors import InvalidJobError

_EXTRA = "__extra__"
"""The parameter of a connection's URI that holds its extras as JSON, as Airflow writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFields:
    """
    The fields of a connection, as Airflow has them.

    :param schema: of a database, its name.
    :param extra: further parameters by name.
    """

    kind: str
    host: str = ""
    port: int | None = None
    login: str = ""
    password: str = field(default="", repr=False)
    schema: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


Lookup = Callable[[str], ConnectionFields | None]

_lookups: list[Lookup] = []


def register_lookup(lookup: Lookup) -> None:
    """Add a lookup, which is asked for connections that the environment does not have; a no-op if it is known."""
    if lookup not in _lookups:
        _lookups.append(lookup)


def variable_of(connection_id: str) -> str:
    """Return the name of the environment variable that may hold a connection."""
    return f"AIRFLOW_CONN_{connection_id.upper()}"


def connection_fields(connection_id: str) -> ConnectionFields | None:
    """
    Look a connection up.

    :returns: ``None`` if nothing knows it.
    :raises InvalidJobError: if its environment variable cannot be parsed; its content is not quoted.
    """
    written = os.environ.get(variable_of(connection_id))
    if written:
        return parse_connection(written, variable_of(connection_id))
    return next((found for lookup in _lookups if (found := lookup(connection_id)) is not None), None)


def parse_connection(text: str, where: str) -> ConnectionFields:
    """
    Parse a connection as Airflow writes it: a URI, or JSON.

    :param where: where the text stands, for the message.
    :raises InvalidJobError: if it is neither.
    """
    try:
        return _from_json(json.loads(text)) if text.lstrip().startswith("{") else _from_uri(text)
    except (ValueError, TypeError, AttributeError):
        # No cause: its text may quote a password.
        raise InvalidJobError(
            f"{where} is neither a connection's URI, such as postgres://user:password@host:5432/database, nor its JSON"
        ) from None


def _from_json(fields: Mapping[str, Any]) -> ConnectionFields:
    extra = fields.get("extra") or {}
    return ConnectionFields(
        kind=fields.get("conn_type") or "",
        host=fields.get("host") or "",
        port=int(fields["port"]) if fields.get("port") else None,
        login=fields.get("login") or "",
        password=fields.get("password") or "",
        schema=fields.get("schema") or "",
        extra=_by_name(extra),
    )


def _from_uri(uri: str) -> ConnectionFields:
    parts = urlsplit(uri)
    if not parts.scheme:
        raise ValueError("no scheme")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    return ConnectionFields(
        kind=parts.scheme,
        host=unquote(parts.hostname or ""),
        port=parts.port,
        login=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        schema=unquote(parts.path.lstrip("/")),
        extra=_by_name(given.get(_EXTRA, given)),
    )


def _by_name(extra: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return extras by name; as JSON they may be anything."""
    found = json.loads(extra) if isinstance(extra, str) else extra
    if not isinstance(found, Mapping):
        raise TypeError("the extras have no names")
    return dict(found)
