"""A folder for temporary files that no other user of the machine can make, read or replace."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

_OWNER_ONLY = 0o700
_OF_OTHERS = 0o077


def private_folder() -> Path:
    """
    Return this user's folder among the temporary files.

    Anybody may make a folder of that name first, or a link. Then a new folder with a name that nobody knows is made.
    """
    folder = Path(tempfile.gettempdir()) / f"airflow-backfill-{os.getuid()}"
    try:
        folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & _OF_OTHERS:
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="airflow-backfill-"))
