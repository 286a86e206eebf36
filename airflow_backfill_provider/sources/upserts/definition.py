"""The fields of ``upstream`` for a Delta table of upserts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, StrictStr, field_validator, model_validator

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition

Name = Annotated[StrictStr, Field(min_length=1)]


class UpsertsUpstream(UpstreamDefinition):
    """
    An append-only Delta table of upserts.

    :param path: the table's location.
    :param ordered_by: the columns that order the rows of a key. The greatest counts.
    :param deleted: the column that is true for a key that has no row any more; ``None`` if keys are never deleted.
    :param split: the column with the split that a row came from. Rows of different splits have no order, so a key with
        rows of two splits is refused; ``None`` if all rows are in one order.
    """

    kind: ClassVar[str] = "upserts"

    path: StrictStr
    ordered_by: Annotated[tuple[Name, ...], Field(min_length=1)]
    deleted: Name | None = None
    split: Name | None = None

    _canonical_path = field_validator("path")(location.canonical_location)

    @model_validator(mode="after")
    def _each_column_once(self) -> UpsertsUpstream:
        names = [*self.ordered_by, *(name for name in (self.deleted, self.split) if name is not None)]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidJobError(
                f"ordered_by, deleted and split name {', '.join(repeated)} more than once; name each column once"
            )
        return self

    @property
    def location(self) -> str:
        """The path."""
        return self.path

    @property
    def folders(self) -> Mapping[str, str]:
        """The path."""
        return {"upstream.upserts.path": self.path}
