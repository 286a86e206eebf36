"""The status of a job over splits, such as the partitions of a topic: split by split."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed
from airflow_backfill_provider.core.scan.spark_hash import vnode_of_number
from airflow_backfill_provider.core.scan.splits import SplitStage, split_progress, splits_by_vnode


class SplitStatus(BaseModel):
    """
    The progress of one split.

    :param split: the split's number.
    :param stage: ``backfilling``; ``catching_up`` with what was appended since the job was created; or ``finished``:
        what is appended is a change.
    :param begin: the first place that the job reads.
    :param next: the place after those that the view has.
    :param end: the place after the split's last row now.
    :param rows: rows read until it was finished; ``None`` if several splits share a vnode, which counts them together.
    """

    model_config = ConfigDict(frozen=True)

    split: int
    stage: SplitStage
    begin: int
    next: int
    end: int
    rows: int | None

    @property
    def lag(self) -> int:
        """The places that the view lacks; gaps are counted, too."""
        return max(self.end - self.next, 0)


def split_map(
    settings: JobSettings, state: BackfillState, *, reached: Offset | None, latest: Offset
) -> tuple[SplitStatus, ...]:
    """
    Return the progress of each split; empty if the job's upstream has none.

    :param reached: the offset that the view is at; ``None`` before the first epoch.
    :param latest: the upstream's newest offset.
    """
    ends_of = settings.definition.upstream.split_ends
    newest = ends_of(latest)
    if newest is None:
        return ()
    begins = ends_of(settings.first_offset) or {}
    committed = (ends_of(reached) if reached is not None else begins) or {}
    at_creation = settings.offset_at_creation
    live_from = (ends_of(at_creation) if at_creation is not None else None) or {}
    progress = split_progress(state, begins=begins, live_from=live_from, ends=committed)
    alone = {splits[0] for splits in splits_by_vnode(newest, len(state.vnodes)).values() if len(splits) == 1}
    found = []
    for split, end in sorted(newest.items()):
        vnode = state.vnodes[vnode_of_number(split, len(state.vnodes))]
        known = progress.get(split)
        unseen = SplitStage.FINISHED if isinstance(vnode, Completed) else SplitStage.BACKFILLING
        found.append(
            SplitStatus(
                split=split,
                stage=known.stage if known else unseen,
                begin=known.read.begin if known else 0,
                next=known.read.end if known else 0,
                end=end,
                rows=vnode.row_count if split in alone else None,
            )
        )
    return tuple(found)
