"""
The file log's Delta table, written with deltalake.

Each addition is one commit, made against exactly the version that its writer read. So of two processes that add files
at the same time one fails, and starts over from what the other added.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.errors import BackfillError, ConcurrentUpdateError, StateError
from airflow_backfill_provider.lake.files.rows import read_rows
from airflow_backfill_provider.lake.log.dropping import drop_table
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import got_no_answer, one_line, storage_errors, storage_unavailable
from airflow_backfill_provider.sources.shared.file_log.entries import FoundFile, PlacedFile, PlacedFiles

logger = logging.getLogger(__name__)

SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("split", pa.int32(), nullable=False),
        pa.field("begin", pa.int64(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("added_at", pa.int64(), nullable=False),
        pa.field("details", pa.string(), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
    ]
)

MOST_DATA_FILES = 64
"""The log is compacted when it has more data files, because each addition writes one."""

_MARK = "airflow-backfill/"
"""The prefix of the transactions whose versions are the marks of the log's source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContent:
    """
    What a file log has.

    :param log_id: identifies the log; one that was made anew has another id.
    :param version: the version of the table; -1 if there is none.
    :param marks: what the source recorded with the newest addition, such as how far the upstream was looked at.
    :param placed: the files.
    """

    log_id: str = ""
    version: int = -1
    marks: Mapping[str, int] = field(default_factory=dict)
    placed: PlacedFiles = field(default_factory=PlacedFiles)

    @property
    def exists(self) -> bool:
        """Whether there is a log."""
        return self.version >= 0


class FileLog:
    """
    A file log.

    :param location: the table's canonical location.
    :param marks: the names of the marks that the source records.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(
        self, location: str, marks: Sequence[str] = (), storage_options: Mapping[str, str] | None = None
    ) -> None:
        self.location = location
        self._marks = marks
        self._options = dict(storage_options or {})
        self._known = LogContent()

    def read(self) -> LogContent:
        """
        Return what the log has.

        :raises StateError: if the log is damaged.
        """
        try:
            with storage_errors(self.location):
                table = DeltaTable(self.location, storage_options=options_of(self.location, self._options))
                if (str(table.metadata().id), table.version()) != (self._known.log_id, self._known.version):
                    self._known = self._content(table)
        except TableNotFoundError:
            self._known = LogContent()
        except BackfillError:
            raise
        except Exception as error:
            if got_no_answer(error):
                raise storage_unavailable(self.location, error) from error
            raise StateError(
                f"the file log at {self.location} cannot be read ({one_line(error)}); restore it from a copy, or "
                "rebuild the job"
            ) from None
        return self._known

    def add(
        self,
        content: LogContent,
        found: Sequence[FoundFile],
        marks: Mapping[str, int],
        amended: Sequence[PlacedFile] = (),
    ) -> None:
        """
        Add files behind those that the log had when it was read, in one commit; make the log if there is none.

        :param content: the log as it was read.
        :param marks: what to record beside.
        :param amended: entries that take the place of the log's.
        :raises ConcurrentUpdateError: if another process added files meanwhile.
        """
        placed = [*amended, *content.placed.and_then(found)]
        reached(CrashPoint.BEFORE_LANDING_COMMIT)
        try:
            with storage_errors(self.location):
                target = self._opened_at(content.version) if content.exists else self.location
                write_deltalake(
                    target,
                    _arrow(placed),
                    mode="append" if content.exists else "error",
                    storage_options=options_of(self.location, self._options),
                    commit_properties=CommitProperties(
                        max_commit_retries=0,
                        app_transactions=[Transaction(_MARK + name, value) for name, value in marks.items()],
                    ),
                )
        except DeltaError as error:
            if got_no_answer(error):
                raise storage_unavailable(self.location, error) from error
            raise ConcurrentUpdateError(
                f"another process added files to {self.location} at the same time; try again"
            ) from error
        reached(CrashPoint.AFTER_LANDING_COMMIT)

    def tidy(self) -> None:
        """Compact the table if it has many data files; nothing depends on it."""
        with suppress(DeltaError), storage_errors(self.location):
            table = DeltaTable(self.location, storage_options=options_of(self.location, self._options))
            if len(table.file_uris()) > MOST_DATA_FILES:
                table.optimize.compact(commit_properties=CommitProperties(max_commit_retries=0))
                table.vacuum(dry_run=False)

    def drop(self) -> None:
        """Delete the log, if it exists."""
        drop_table(self.location, self._options)
        self._known = LogContent()

    def _opened_at(self, version: int) -> DeltaTable:
        return DeltaTable(self.location, version=version, storage_options=options_of(self.location, self._options))

    def _content(self, table: DeltaTable) -> LogContent:
        names = [field.name for field in table.schema().fields]
        rows = read_rows(table, ", ".join(f'"{name}"' for name in names), ending="ORDER BY number")
        marks = {name: table.transaction_version(_MARK + name) for name in self._marks}
        return LogContent(
            log_id=str(table.metadata().id),
            version=table.version(),
            marks={name: value for name, value in marks.items() if value is not None},
            placed=PlacedFiles([_placed(row) for row in rows.to_pylist()]),
        )


def _arrow(placed: Sequence[PlacedFile]) -> pa.Table:
    rows = [
        {
            "number": one.number,
            "split": one.split,
            "begin": one.begin,
            "revision": one.revision,
            **{name: getattr(one.file, name) for name in FoundFile.__slots__},
        }
        for one in placed
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _placed(row: Mapping[str, object]) -> PlacedFile:
    of_file = {name: row[name] for name in FoundFile.__slots__}
    return PlacedFile(
        number=int(str(row["number"])),
        split=int(str(row["split"])),
        begin=int(str(row["begin"])),
        revision=int(str(row["revision"])),
        file=FoundFile(**of_file),  # type: ignore[arg-type] # the table's schema has the types
    )
