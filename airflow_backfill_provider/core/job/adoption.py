"""
An existing table that becomes a job's view, as a job's definition names it, and what was found when it was adopted.

The table was made by something else, such as a nightly job. Its rows are believed only after a comparison with the
query. Until a comparison of all vnodes finds them equal, epochs write as repairs do: a key that appears may be there.
"""

from __future__ import annotations

import datetime as dt
from math import comb
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, field_validator

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.job.as_of import AsOf
from airflow_backfill_provider.core.location import canonical_location

CONFIDENCE = 0.95
"""How sure the statement is that a sample makes of all vnodes."""


class BackfillFrom(BaseModel):
    """
    The table that becomes the view.

    :param path: its location. If that is the view's own, the table is adopted in place; otherwise its files are copied.
    :param version: its version; by default the newest.
    :param sample: how many vnodes are compared with the query before the table is adopted; by default all.
    :param repair: whether the first epoch repairs what differs; otherwise a table that differs is refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: StrictStr
    version: Annotated[StrictInt, Field(ge=0)] | None = None
    sample: Annotated[StrictInt, Field(ge=1)] | None = None
    repair: StrictBool = False

    @field_validator("path")
    @classmethod
    def _canonical_path(cls, value: str) -> str:
        return canonical_location(value)


def require_possible(
    table: BackfillFrom | None,
    as_of: AsOf | None,
    *,
    vnode_count: int,
    several: bool,
    whole: bool,
    restricted: bool,
    named_in_place: bool,
    laid_out_in_place: bool,
) -> None:
    """
    Refuse a job that names a table in ways that cannot be adopted.

    :param several: whether the job has several upstreams.
    :param whole: whether each epoch computes the whole view.
    :param restricted: whether the job reads a part of the upstream.
    :param named_in_place: whether the table is adopted in place, and the view has a name in a catalog.
    :param laid_out_in_place: whether the table is adopted in place, and the job names a layout.
    :raises InvalidJobError: with the field.
    """
    if table is None:
        return
    if table.sample is not None and table.sample > vnode_count:
        raise InvalidJobError(f"backfill_from.sample: the job has {vnode_count} vnodes; give at most that, or none")
    if several and isinstance(as_of, int):
        raise InvalidJobError(
            "as_of: the job has several upstreams, so a version does not say what it is of; give a time"
        )
    if whole:
        raise InvalidJobError(
            "backfill_from: with refresh: full, the first epoch computes the whole view anyway; leave backfill_from out"
        )
    if restricted:
        raise InvalidJobError(
            "backfill_from: the whole table becomes the view, so the job must read the whole upstream; leave "
            "restrict_to out"
        )
    if laid_out_in_place:
        raise InvalidJobError(
            "backfill_from: a table that is adopted in place keeps its layout; leave out partition_by, cluster_by, "
            "target_file_size and row_tracking, or let its files be copied to another materialized_view"
        )
    if named_in_place:
        raise InvalidJobError(
            "backfill_from: a table is adopted in place only if materialized_view is its location; give the location, "
            "or let its files be copied to another view_path"
        )


class Adopted(Frozen):
    """
    What was found when a table was adopted.

    :param compared: the vnodes that were compared with the query.
    :param vnodes: all vnodes.
    :param differing: the vnodes that differed.
    :param keys: the keys that differed.
    :param written_by: what wrote to the table last, as far as its log says so.
    :param written_at: when.
    """

    compared: int
    vnodes: int
    differing: int = 0
    keys: int = 0
    written_by: str = ""
    written_at: dt.datetime | None = None

    @property
    def is_equal(self) -> bool:
        """Whether all vnodes were compared, and none differed."""
        return self.compared == self.vnodes and not self.differing


def most_differing(vnodes: int, sample: int, confidence: float = CONFIDENCE) -> int:
    """
    Return the most vnodes that may differ, if none of a random sample does.

    With more differing vnodes than that, such a sample would have hit one of them with at least the given probability.

    :param vnodes: all vnodes.
    :param sample: the compared ones.
    """
    missed = (
        differing
        for differing in range(vnodes - sample, 0, -1)
        if comb(vnodes - differing, sample) / comb(vnodes, sample) > 1 - confidence
    )
    return next(missed, 0)
