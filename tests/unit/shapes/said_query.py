"""A query for tests of what all shapes have in common."""

from __future__ import annotations

from airflow_backfill_provider.shapes.queries import ShapedQuery


class Said(ShapedQuery):
    """A query that repeats what it is rendered with."""

    text = "SELECT 1"

    def columns_of(self, available):
        return tuple(available)

    def render(self, relation, key, upstream_names):
        return f"{relation} {key} {sorted(upstream_names)}"

    def units(self, settings, *, by_key):
        raise NotImplementedError

    def holds_distribution_key(self, settings):
        raise NotImplementedError
