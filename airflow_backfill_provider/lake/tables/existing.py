"""Tells whether there is a Delta table at a location."""

from __future__ import annotations

from collections.abc import Mapping

from deltalake import DeltaTable

from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import storage_errors


def is_table(path: str, storage_options: Mapping[str, str] | None = None) -> bool:
    """
    Return whether there is a Delta table.

    :raises StorageUnavailableError: if the storage does not answer.
    """
    with storage_errors(path):
        return DeltaTable.is_deltatable(path, storage_options=options_of(path, storage_options))
