"""The Delta table properties that a job may give its view."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.errors import InvalidJobError


def require_allowed_properties(properties: Mapping[str, str]) -> None:
    """
    Refuse properties that are the package's own, or under which a view cannot be kept right.

    :raises InvalidJobError: with the properties.
    """
    reserved = sorted(name for name in properties if name.lower().startswith("backfill."))
    if reserved:
        raise InvalidJobError(
            f"{', '.join(reserved)}: properties that begin with 'backfill.' are reserved; leave them out"
        )
    for name, text in properties.items():
        if name.lower() == "delta.appendonly" and text.lower() == "true":
            raise InvalidJobError(f"{name}: changes cannot be applied to an append-only view; leave it out")
        if name.lower() == "delta.settransactionretentionduration":
            raise InvalidJobError(
                f"{name}: if Delta forgets a transaction, a retry writes the same rows twice; leave it out"
            )
