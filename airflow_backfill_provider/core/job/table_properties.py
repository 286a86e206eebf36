"""The Delta table properties that a job may give its view."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.errors import InvalidJobError

_OF_THE_LAYOUT = {"delta.targetfilesize": "target_file_size", "delta.enablerowtracking": "row_tracking"}

_OWNED = {
    "delta.rowtracking.": "Delta itself names the columns of row tracking",
    "delta.coordinatedcommits.": "this package commits to the view's log itself, and asks no coordinator",
    "delta.columnmapping.maxcolumnid": "Delta itself counts the columns",
}
"""Beginnings of the names of properties that no job may give its view, in lower case, each with the reason."""


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
        if instead := _OF_THE_LAYOUT.get(name.lower()):
            raise InvalidJobError(f"{name}: write it as the job's field {instead}; leave it out here")
        if owned := next((owned for owned in _OWNED if name.lower().startswith(owned)), ""):
            raise InvalidJobError(f"{name}: {_OWNED[owned]}; leave it out")
        if name.lower() == "delta.appendonly" and text.lower() == "true":
            raise InvalidJobError(f"{name}: changes cannot be applied to an append-only view; leave it out")
        if name.lower() == "delta.settransactionretentionduration":
            raise InvalidJobError(
                f"{name}: if Delta forgets a transaction, a retry writes the same rows twice; leave it out"
            )
