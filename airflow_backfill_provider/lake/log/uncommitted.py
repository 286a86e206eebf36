"""The names of what Delta writes for an empty table before its first commit."""

from __future__ import annotations

import re

LOG = "_delta_log"

EMPTY_PART = re.compile(r"^\.?part-\d{5}-[0-9a-f-]{36}[-.\w]*\.parquet(\.crc)?$")
"""The name of a data file, or of its checksum."""

NO_TABLE = "holds files, but no Delta table; choose an empty folder"
"""What is wrong with a folder that holds something else."""


def is_no_commit(name: str) -> bool:
    """Return whether a file of the log is no commit, by its name."""
    return name.startswith((".", "_"))
