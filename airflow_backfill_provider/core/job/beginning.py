"""What a job's view begins with: an existing table, or the upstream's rows as of an earlier point of its history."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.adoption import BackfillFrom
from airflow_backfill_provider.core.job.as_of import OLDEST, AsOf
from airflow_backfill_provider.core.job.stars import StarredQuery


class BegunView(StarredQuery):
    """
    The fields of a job that say what its view begins with.

    :param backfill_from: an existing table that becomes the view, in place of a backfill; see
        :class:`~airflow_backfill_provider.core.job.adoption.BackfillFrom`. A rebuild does not use it.
    :param as_of: the version of the upstream, or the time, that this table shows. Without such a table, the version or
        time since which a view with ``keep`` has former rows; ``oldest`` is as far back as the upstream has its
        changes.
    """

    backfill_from: Annotated[BackfillFrom | None, Field(exclude_if=lambda found: found is None)] = None
    as_of: Annotated[AsOf | None, Field(exclude_if=lambda found: found is None)] = None

    @model_validator(mode="after")
    def _begins_at_a_point(self) -> Self:
        is_adopted = self.backfill_from is not None
        if self.as_of is None and is_adopted:
            raise InvalidJobError(
                "as_of: is required with backfill_from: the version of the upstream, or the time, that the table shows"
            )
        if self.as_of == OLDEST and is_adopted:
            raise InvalidJobError(
                "as_of: a table of backfill_from shows one point of the upstream's history; give its version, or its "
                "time"
            )
        if self.as_of is not None and not (is_adopted or self.keep.keeps_former_rows):
            raise InvalidJobError(
                "as_of: says what the table of backfill_from shows, or since when a view with keep has former rows; "
                "give one of these, too"
            )
        return self

    @property
    def kept_since(self) -> AsOf | None:
        """Since when the view has former rows; ``None`` if it keeps none, or since the job was created."""
        return self.as_of if self.backfill_from is None else None
