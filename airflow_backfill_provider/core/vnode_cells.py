"""The map of a job's vnodes as it is drawn: a bounded number of cells, however many vnodes there are."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.progress import BackfillState, Completed, InProgress, NotStarted, VnodeProgress
from airflow_backfill_provider.core.settings import JobSettings

MOST_CELLS = 256
"""Cells of the map at most: what one can take in at a glance, and the default number of vnodes."""


class VnodeCell(BaseModel):
    """
    Neighbouring vnodes that one cell of the map stands for.

    :param first: the first of them.
    :param last: the last of them.
    :param rows: snapshot rows read of them; under ``no_shuffle`` of all vnodes together.
    :param position: where they are, a value for each key column; ``None`` if none is in progress, or they differ.
    """

    model_config = ConfigDict(frozen=True)

    first: int
    last: int
    not_started: int
    in_progress: int
    completed: int
    rows: int
    position: tuple[str | None, ...] | None = None


def vnode_cells(settings: JobSettings, state: BackfillState, most: int = MOST_CELLS) -> tuple[VnodeCell, ...]:
    """
    Return the cells of a job's map, each of the same number of vnodes, save the last.

    :param most: cells at most.
    """
    count = len(state.vnodes)
    size = max(-(-count // most), 1)
    return tuple(_cell(settings, first, state.vnodes[first : first + size]) for first in range(0, count, size))


def _cell(settings: JobSettings, first: int, vnodes: Sequence[VnodeProgress]) -> VnodeCell:
    begun = [progress for progress in vnodes if isinstance(progress, InProgress)]
    positions = {progress.position for progress in begun}
    return VnodeCell(
        first=first,
        last=first + len(vnodes) - 1,
        not_started=sum(isinstance(progress, NotStarted) for progress in vnodes),
        in_progress=len(begun),
        completed=sum(isinstance(progress, Completed) for progress in vnodes),
        rows=settings.scan.rows_in(vnodes),
        position=settings.key_order.encode(positions.pop()) if len(positions) == 1 else None,
    )
