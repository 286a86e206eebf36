"""The map of a job's vnodes for the pages: a bounded number of cells, however many vnodes there are."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted, VnodeProgress

MOST_CELLS = 256
"""The most cells of a map; as many as the default number of vnodes."""


class VnodeCell(BaseModel):
    """
    Adjacent vnodes that one cell of the map represents.

    :param first: the first vnode.
    :param last: the last vnode.
    :param rows: snapshot rows read of these vnodes; under ``no_shuffle`` of all vnodes.
    :param position: the position of the vnodes in progress, one value per key column; ``None`` if no vnode is in
        progress, or positions differ.
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
    Return the cells of a job's map. All but the last have the same number of vnodes.

    :param most: the most cells.
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
        position=settings.position_order.encode(positions.pop()) if len(positions) == 1 else None,
    )
