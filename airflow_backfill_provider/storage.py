"""What deltalake and Arrow say when a table's storage does not answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_backfill_provider.core.errors import StorageUnavailableError

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def storage_errors(location: str) -> Iterator[None]:
    """
    Tell a storage that does not answer from a table that is damaged: the first may pass.

    :param location: the table, for the message.
    :raises StorageUnavailableError: if the storage cannot be reached, or refuses access.
    """
    try:
        yield
    except OSError as error:
        reason = " ".join(_COLOURS.sub("", str(error)).replace("↳", "").split())
        raise StorageUnavailableError(
            f"{location} cannot be reached ({reason}); check the storage, its options and the right to read it, then "
            "try again"
        ) from error
