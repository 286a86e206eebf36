"""Finds the checkpoint that a version of a Delta table is read from."""

from __future__ import annotations

import re

import pyarrow.fs as arrow_fs

_CHECKPOINT = re.compile(r"(?:^|/)(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(parquet|json)$")


def newest_checkpoint(files: arrow_fs.FileSystem, version: int) -> tuple[int, list[str]]:
    """
    Return the newest complete checkpoint at or before a version, and its files.

    :param files: file system rooted at the table.
    :returns: version -1 and no files, if there is none.
    :raises OSError: if the log cannot be read.
    """
    found: dict[tuple[int, str], list[str]] = {}
    selector = arrow_fs.FileSelector("_delta_log", allow_not_found=True)
    for info in files.get_file_info(selector):
        name = _CHECKPOINT.search(info.path)
        if name and int(name[1]) <= version:
            # Group the parts of one checkpoint. A version may have several checkpoints; any of them will do.
            found.setdefault((int(name[1]), name[3] or info.path), []).append(info.path)
    whole = [key for key, parts in found.items() if not key[1].isdigit() or len(parts) == int(key[1])]
    if not whole:
        return -1, []
    newest = max(whole)
    return newest[0], found[newest]
