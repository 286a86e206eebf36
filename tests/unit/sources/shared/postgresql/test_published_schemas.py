"""Publications of schemas, on servers that have them and on older ones; a real one is in ``test_rights.py``."""

from __future__ import annotations

from airflow_backfill_provider.sources.shared.postgresql.published_schemas import (
    PUBLISHED_SCHEMAS,
    with_published_schemas,
)

QUERY = f"SELECT oid FROM {PUBLISHED_SCHEMAS} s WHERE '{{}}' = '{{}}'"


def test_a_server_that_has_the_catalog_is_asked():
    assert with_published_schemas(QUERY, 150_000) == b"SELECT oid FROM pg_publication_namespace s WHERE '{}' = '{}'"


def test_an_older_server_has_none():
    """A query that names a catalog which it does not have would fail."""
    query = with_published_schemas(QUERY, 140_012)
    assert b"pg_publication_namespace" not in query
    assert query.startswith(b"SELECT oid FROM (SELECT NULL::oid AS oid, ")
