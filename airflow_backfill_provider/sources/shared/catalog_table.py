"""What the definitions of Delta tables have in common that may be named in a catalog instead of located."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, StrictStr, ValidationInfo, field_validator

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.job.table_name import canonical_table_name
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition


def _is_empty(value: str) -> bool:
    return not value


class CatalogTableUpstream(UpstreamDefinition):
    """A Delta table, by its location, or by its name in a catalog. A created job has both."""

    table: Annotated[StrictStr, Field(exclude_if=_is_empty)] = ""
    path: Annotated[StrictStr, Field(exclude_if=_is_empty, validate_default=True)] = ""

    @field_validator("table")
    @classmethod
    def _canonical_table(cls, value: str) -> str:
        return canonical_table_name(value) if value else ""

    @field_validator("path")
    @classmethod
    def _canonical_path(cls, value: str, info: ValidationInfo) -> str:
        if value:
            return location.canonical_location(value)
        if "table" in info.data and not info.data["table"]:
            raise ValueError("is required: the table's location; or give its name in a catalog as upstream.table")
        return ""

    @property
    def location(self) -> str:
        """The path; before it is known, the name."""
        return self.path or self.table

    @property
    def folders(self) -> Mapping[str, str]:
        """The path, once it is known."""
        return {"upstream.path": self.path} if self.path else {}

    @property
    def catalog_table(self) -> str:
        """The table's name in a catalog."""
        return self.table

    @property
    def is_placed(self) -> bool:
        """Whether the path is known."""
        return bool(self.path)

    def placed(self, path: str) -> Self:
        """Return the definition with the path."""
        return self.model_copy(update={"path": location.canonical_location(path)})
