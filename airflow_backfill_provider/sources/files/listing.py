"""Lists the files of a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow.fs as arrow_fs
from deltalake.exceptions import TableNotFoundError

from airflow_backfill_provider.core.errors import UpstreamNotFoundError
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.lake.files.stored_files import stored_files
from airflow_backfill_provider.lake.store.storage import storage_errors

_HIDDEN = ("_", ".")
"""How names begin that are hidden or temporary."""

_IN_PROGRESS = (
    "._copying_",
    ".tmp",
    ".temp",
    ".part",
    ".partial",
    ".filepart",
    ".inprogress",
    ".incomplete",
    ".crdownload",
    ".download",
    ".swp",
    "~",
)
"""How names end, in any case, under which common programs write a file until it is whole."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ListedFile:
    """
    A file as a folder lists it; in the order in which files are read.

    :param modified: when it was written, in milliseconds since 1970.
    :param path: its path in the folder.
    :param size: its size in bytes.
    """

    modified: int
    path: str
    size: int


@dataclass(frozen=True)
class Folder:
    """
    A folder, with the folders within it.

    :param location: its canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    location: str
    storage_options: Mapping[str, str]

    @cached_property
    def storage(self) -> arrow_fs.FileSystem:
        """The file system, rooted at the folder."""
        if is_local(self.location):
            return arrow_fs.SubTreeFileSystem(self.location, arrow_fs.LocalFileSystem())
        return stored_files(self.location, self.storage_options)

    def files(self) -> list[ListedFile]:
        """
        List the files without hidden and temporary ones.

        :raises UpstreamNotFoundError: if there is no folder.
        """
        if is_local(self.location) and not Path(self.location).is_dir():
            raise self._missing()
        try:
            with storage_errors(self.location):
                found = self.storage.get_file_info(arrow_fs.FileSelector("", recursive=True, allow_not_found=True))
        except TableNotFoundError as error:
            raise self._missing() from error
        return sorted(_listed(info) for info in found if info.type is arrow_fs.FileType.File and _is_shown(info.path))

    def listed(self, paths: Sequence[str]) -> list[ListedFile | None]:
        """Return some files as they are now; ``None`` for one that is gone."""
        with storage_errors(self.location):
            found = self.storage.get_file_info(list(paths))
        return [_listed(info) if info.type is arrow_fs.FileType.File else None for info in found]

    def _missing(self) -> UpstreamNotFoundError:
        return UpstreamNotFoundError(
            f"there is no folder {self.location}; check upstream.files.path, or create the folder first"
        )


def _listed(info: arrow_fs.FileInfo) -> ListedFile:
    return ListedFile(modified=(info.mtime_ns or 0) // 1_000_000, path=info.path, size=info.size)


def _is_shown(path: str) -> bool:
    return not any(name.startswith(_HIDDEN) or name.lower().endswith(_IN_PROGRESS) for name in path.split("/"))
