"""
Publications for all tables of a schema (``FOR TABLES IN SCHEMA``), which PostgreSQL has since version 15.

Older servers have no such catalog, and a query that names it fails there.
"""

from __future__ import annotations

_SINCE = 150_000

_CATALOG = "pg_publication_namespace"
_NOTHING = "(SELECT NULL::oid AS oid, NULL::oid AS pnpubid, NULL::oid AS pnnspid WHERE false)"

PUBLISHED_SCHEMAS = "{published_schemas}"
"""Stands in a query for the schemas that publications have."""


def with_published_schemas(query: str, server_version: int) -> bytes:
    """Return a query with the catalog of published schemas, as far as the server has one."""
    found = _CATALOG if server_version >= _SINCE else _NOTHING
    return query.replace(PUBLISHED_SCHEMAS, found).encode()
