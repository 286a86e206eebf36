"""
The address of a database for the JDBC driver.

It is one text, in which a name must not be taken for anything else: a driver has options that load classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from airflow_backfill_provider.core.errors import DatabaseRefusedError

_HOST = re.compile(r"[\w.-]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[\w.-]+)?")
"""A host's name, or an address of IPv4 or IPv6."""

_LOCAL = ("/", "@")
"""What the name of a Unix socket begins with: a folder, or an abstract name."""


def jdbc_address(host: str, port: str, database: str, options: Mapping[str, str]) -> str:
    """
    Return the address.

    :param host: one that :func:`require_host` accepts.
    :param options: options of the driver.
    """
    named = f"[{host}]" if ":" in host else host
    return f"jdbc:postgresql://{named}:{port}/{quote(database, safe='')}?{urlencode(options, quote_via=quote)}"


def require_host(connection_id: str, host: str) -> None:
    """
    Refuse a host that libpq can reach, and the JDBC driver cannot.

    :raises DatabaseRefusedError: with what to do.
    """
    if not host or host.startswith(_LOCAL):
        raise DatabaseRefusedError(
            f"{connection_id}: the connection leads to a Unix socket ({host or 'no host'}), and Spark's JDBC driver "
            "cannot use one; let the connection name the server's host, such as localhost"
        )
    if not _HOST.fullmatch(host):
        raise DatabaseRefusedError(
            f"{connection_id}: the connection's host {host!r} is neither a host's name nor an address; Spark's JDBC "
            "driver cannot use it: correct the connection"
        )
