"""The fields of ``upstream`` for a folder of files."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import ConfigDict, Field, StrictBool, StrictStr, field_validator, model_validator

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.errors import InvalidJobError, UnsupportedValueError
from airflow_backfill_provider.sources.shared.file_log.definition import FileLogUpstream, require_no_key_columns
from airflow_backfill_provider.sources.shared.unreadable_records import UnreadableRecords
from airflow_backfill_provider.sources.spark_failures import Refusal

UNREADABLE_LINE = Refusal(
    "AIRFLOW_BACKFILL_UNREADABLE_LINE",
    UnsupportedValueError,
    "{about}; correct the file, or correct upstream.files.schema and rebuild the job, or rebuild it with "
    "unreadable_records: dead_letter, which leaves such records out of the view and lists them",
)
"""What is said of a line of a file that does not fit the columns; where it is and what is wrong with it follow."""


class FileFormat(StrEnum):
    """The formats of files."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class Escape(StrEnum):
    """What stands before a quote within a quoted value of CSV."""

    QUOTE = '"'
    BACKSLASH = "\\"


class FilesUpstream(FileLogUpstream):
    """
    A folder of files.

    :param path: the folder; folders within it count, too.
    :param format: the format of all files.
    :param schema_: the columns and their types as SQL writes them.
    :param header: whether the first line of each CSV file has the names of the columns.
    :param delimiter: what separates the values of a CSV line.
    :param escape: what stands before a quote within a quoted value of CSV: another quote, or a backslash.
    :param unreadable_records: ``fail`` if an epoch fails when it uses a value that does not fit its column;
        ``dead_letter`` if the view leaves such records out, and a table of dead letters has them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )

    kind: ClassVar[str] = "files"

    path: StrictStr
    format: FileFormat
    schema_: Annotated[StrictStr, Field(alias="schema")]
    header: StrictBool = True
    delimiter: Annotated[StrictStr, Field(min_length=1, max_length=1)] = ","
    escape: Escape = Escape.QUOTE
    unreadable_records: UnreadableRecords = UnreadableRecords.FAIL

    _canonical_path = field_validator("path")(location.canonical_location)

    @model_validator(mode="after")
    def _has_columns(self) -> Self:
        types = self.column_types
        require_no_key_columns("schema", types)
        nested = sorted(name for name, kind in types.items() if kind.startswith("{"))
        if self.format is FileFormat.CSV and nested:
            raise InvalidJobError(
                f"schema: a value in CSV is a text, so column {nested[0]} cannot be nested; read it as STRING, and "
                "take it apart in the query"
            )
        if self.delimiter in {'"', "\n", "\r", self.escape}:
            raise InvalidJobError(
                "delimiter: values of CSV cannot be separated by quotes, by what escapes these, or by ends of lines"
            )
        return self

    @classmethod
    def field_names(cls) -> list[str]:
        """Return the names of the fields, as a job writes them."""
        return [name.rstrip("_") for name in super().field_names()]

    @property
    def column_types(self) -> Mapping[str, str]:
        """Column → its type, as Delta writes it."""
        from airflow_backfill_provider.sources.shared.formats.column_types import type_text
        from airflow_backfill_provider.sources.shared.formats.columns_text import parse_columns

        fields = parse_columns(self.schema_, "schema")["fields"]
        return {field["name"]: type_text(field["type"]) for field in fields}

    @property
    def location(self) -> str:
        """The folder."""
        return self.path

    @property
    def lists_unreadable(self) -> bool:
        """Whether records that do not fit their columns become dead letters."""
        return self.unreadable_records is UnreadableRecords.DEAD_LETTER

    @property
    def watched(self) -> str:
        """The folder and the file log, because a poll looks at both."""
        return f"{self.path}, {self.file_log}"

    @property
    def folders(self) -> Mapping[str, str]:
        """The folder."""
        return {"upstream.files.path": self.path}
