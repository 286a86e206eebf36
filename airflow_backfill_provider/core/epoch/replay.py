"""
The replay: epochs that apply the changes that waited while history was read, up to the present.

Each epoch takes as many changes as the rate limit allows, or a share of what is left if that is more. Commits arrive
meanwhile, so no fixed share ends: with one eighth, the backlog settles at eight times what arrives during an epoch. So
the share grows with the number of the epoch, and the tenth one takes everything. In still water, ten epochs take one
tenth of the backlog each.

The number is pinned in the barrier, and the next one follows from it alone (I2).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.epoch.barrier import Barrier

MOST_EPOCHS = 10
"""The number of the epoch that takes all that is left, whatever the rate limit is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayEpoch:
    """
    One epoch of a replay.

    :param number: its number, from 1.
    :param backlog: how many steps of the upstream's history are left, at the time when it is pinned.
    """

    number: int
    backlog: int

    @classmethod
    def following(cls, previous: Barrier | None, *, backlog: int) -> ReplayEpoch:
        """
        Return the replay epoch after a barrier.

        If that barrier's epoch was given up, its window would fail again. The correction lies somewhere behind it, so
        the next epoch takes everything.
        """
        before = 0 if previous is None else previous.replay
        if before and previous is not None and previous.given_up is not None:
            return cls(number=max(before + 1, MOST_EPOCHS), backlog=backlog)
        return cls(number=before + 1, backlog=backlog)

    @property
    def takes_all(self) -> bool:
        """Whether it takes everything that is left."""
        return self.number >= MOST_EPOCHS

    @property
    def least_steps(self) -> int:
        """The steps that it takes at least, however many rows changed in them."""
        return -(-self.backlog // max(MOST_EPOCHS + 1 - self.number, 1))

    def warnings(self, steps: int, rate_limit: int | None) -> tuple[str, ...]:
        """
        Return a warning if the epoch takes some steps only so that the replay ends.

        :param steps: the steps that it takes.
        :param rate_limit: the rate limit in force, in rows; ``None`` is unlimited, 0 reads no
            snapshot, and then only changes are applied.
        """
        if not rate_limit or steps <= 1 or steps > self.least_steps:
            return ()
        taken = f"all {steps:,}" if self.takes_all else f"{steps:,} of the {self.backlog:,}"
        warning = (
            f"epoch {self.number} of the replay takes {taken} offsets that are left, however many rows changed in "
            f"them, so that the replay ends; the rate limit of {text.rows(rate_limit)} does not bind it"
        )
        return (warning,)


def described(number: int) -> str:
    """
    Describe the rest of a replay in words.

    :param number: the number of its next epoch.
    """
    left = MOST_EPOCHS + 1 - number
    if left <= 1:
        return "the next epoch applies all changes that are left and finishes the view, whatever the rate limit is"
    return (
        f"the changes since then are applied in at most {left} epochs: each applies as many as the rate limit allows, "
        "or a growing share of what is left if that is more, and the last one all"
    )
