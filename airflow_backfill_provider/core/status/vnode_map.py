"""The progress of each vnode as users see it: adjacent vnodes with the same progress are one entry."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.progress import BackfillState, InProgress, NotStarted, VnodeProgress

ALMOST_DONE = 0.999
"""The highest progress while a vnode is not Completed, because the estimate may be too low."""


class VnodeSpan(BaseModel):
    """
    Adjacent vnodes with the same progress.

    :param first: the first vnode.
    :param last: the last vnode.
    :param state: ``not_started``, ``in_progress`` or ``completed``.
    :param rows: snapshot rows read of these vnodes; under ``no_shuffle`` and ``cdc`` of all vnodes.
    :param progress: 0 to 1, relative to the average number of rows of a vnode; below 1 until completed.
    :param position: the position of a vnode in progress, one value per key column.
    """

    model_config = ConfigDict(frozen=True)

    first: int
    last: int
    state: Literal["not_started", "in_progress", "completed"]
    rows: int
    progress: float
    position: tuple[str | None, ...] | None = None


def vnode_map(settings: JobSettings, state: BackfillState, rows_estimated: int) -> Iterator[VnodeSpan]:
    """
    Yield adjacent vnodes with the same progress, as one entry each.

    :param rows_estimated: how many rows the job reads in total.
    """
    order = settings.position_order

    def progress_key(found: tuple[int, VnodeProgress]) -> tuple[object, ...]:
        progress = found[1]
        return type(progress), order.encode(progress.position) if isinstance(progress, InProgress) else None

    for _, alike in itertools.groupby(enumerate(state.vnodes), key=progress_key):
        vnodes = list(alike)
        yield _span(settings, vnodes[0][0], [progress for _, progress in vnodes], rows_estimated)


def _span(settings: JobSettings, first: int, vnodes: Sequence[VnodeProgress], rows_estimated: int) -> VnodeSpan:
    scan, one = settings.scan, vnodes[0]
    found = VnodeSpan(
        first=first,
        last=first + len(vnodes) - 1,
        state="completed",
        rows=scan.rows_in(vnodes),
        progress=1.0,
    )
    match one:
        case NotStarted():
            return found.model_copy(update={"state": "not_started", "progress": 0.0})
        case InProgress(position=position, row_count=rows):
            share = rows / max(scan.rows_of_one(rows_estimated), rows, 1)
            return found.model_copy(
                update={
                    "state": "in_progress",
                    "progress": min(share, ALMOST_DONE),
                    "position": settings.position_order.encode(position),
                }
            )
        case _:
            return found
