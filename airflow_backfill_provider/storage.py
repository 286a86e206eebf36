"""What deltalake and Arrow say when a table's storage does not answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_backfill_provider.core.errors import StorageUnavailableError

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_URL_PARAMETERS = re.compile(r"(https?://[^\s?]+)\?\S*")


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
        # A signature may stand behind the question mark.
        text = _URL_PARAMETERS.sub(r"\1", _COLOURS.sub("", str(error)).replace("↳", ""))
        reason = " ".join(text.split())
        raise StorageUnavailableError(
            f"{location} cannot be reached ({reason}); check the storage, its options and the right to read it, then "
            "try again"
        ) from error
