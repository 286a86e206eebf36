"""Tells whether a new file of a folder is one that the file log has under another path."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.sources.files.details import FileDetails
from airflow_backfill_provider.sources.shared.file_log.entries import FoundFile, PlacedFile


def moved_from(
    found: FoundFile, gone: Sequence[PlacedFile], is_unread: Callable[[PlacedFile], bool], location: str
) -> PlacedFile | None:
    """
    Return the file of the log that was moved to another path.

    A move keeps the time of modification, and a copy keeps the name. The same content under another name and at
    another time is a new file: a writer may write the same rows again.

    :param gone: the files of the log whose paths are gone.
    :param is_unread: returns whether no row of a file was read.
    :raises UpstreamError: if it may be the file or a new one, and rows of the file may have been read.
    """
    same = [placed for placed in gone if _has_same_content(placed.file, found)]
    moved = [placed for placed in same if placed.file.modified == found.modified]
    copied = [placed for placed in same if _name(placed.file) == _name(found) and _is_in_same_partition(placed, found)]
    if unread := [placed for placed in (*moved, *copied) if is_unread(placed)]:
        return unread[0]
    if moved:
        if not _is_in_same_partition(moved[0], found):
            raise UpstreamError(
                f"file {moved[0].file.path} of {location} was moved to {found.path}, a folder of other values, but a "
                "file is read once; move it back, or rebuild the job"
            )
        return moved[0]
    if copied:
        raise UpstreamError(
            f"file {found.path} of {location} has the name and the content of {copied[0].file.path}, which the job's "
            "file log has and which is gone. If it was moved, move it out of the folder; if its rows are new, give it "
            "another name"
        )
    return None


def _has_same_content(known: FoundFile, found: FoundFile) -> bool:
    digests = {FileDetails.from_text(one.details).digest for one in (known, found)}
    return len(digests) == 1 and (known.size, known.rows) == (found.size, found.rows) and found.rows > 0


def _is_in_same_partition(placed: PlacedFile, found: FoundFile) -> bool:
    first, second = (FileDetails.from_text(one.details) for one in (placed.file, found))
    return first.partitions == second.partitions


def _name(file: FoundFile) -> str:
    return file.path.rsplit("/", 1)[-1]
