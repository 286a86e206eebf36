"""The files under a location, also in an object store, as Arrow reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.fs as arrow_fs
from deltalake.fs import DeltaStorageHandler

from airflow_backfill_provider.lake.store.bucket_options import options_of


def stored_files(location: str, storage_options: Mapping[str, str] | None = None) -> arrow_fs.FileSystem:
    """
    Return the file system that is rooted at a location.

    :param storage_options: options of the object store, as deltalake takes them.
    """
    return arrow_fs.PyFileSystem(DeltaStorageHandler(location, options_of(location, storage_options)))
