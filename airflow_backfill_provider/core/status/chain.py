"""The jobs of a chain, in which a job's upstream is the view of the job before it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pydantic import BaseModel, ConfigDict


class ChainedJob(BaseModel):
    """
    A job whose view another job of the chain reads.

    :param name: its name.
    :param materialized_view: the location of its view.
    :param state: the location of its control tables; empty if they are not found.
    :param finished: whether its view has all rows, so that the next job may read it.
    :param progress: its progress from 0 to 1; ``None`` if its control tables are not found or cannot be read.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    materialized_view: str
    state: str = ""
    finished: bool
    progress: float | None = None

    def __str__(self) -> str:
        """Return the name, with the progress if the view is not finished: ``paid_orders, 43 %``."""
        if self.finished or self.progress is None:
            return self.name
        # Of 0.29 * 100, the part before the point is 28.
        return f"{self.name}, {min(int(round(self.progress * 100, 6)), 99)} %"


@dataclass(frozen=True, slots=True)
class HeldUpstream:
    """
    One of several upstreams, with rows that are not read until another job's view has as much of a common table.

    :param upstream: its name in the query.
    :param waits_for: which job the reading waits for, and why: ``waits for job v2, which has not read as far in …``.
    """

    upstream: str
    waits_for: str


@dataclass(frozen=True, slots=True)
class BehindRoot:
    """
    How far a view is behind the root of its chain: the first upstream, which is no view.

    :param since: since when the root may have changes that the view lacks; ``None`` if the view lacks none.
    """

    since: dt.datetime | None

    def seconds(self, now: dt.datetime) -> float:
        """Return the age of the oldest change that the view may lack."""
        return 0.0 if self.since is None else max((now - self.since).total_seconds(), 0.0)


def furthest(found: Iterable[BehindRoot | None]) -> BehindRoot | None:
    """
    Return how far a view is behind the root that it is furthest behind, of several.

    :param found: how far it is behind each; ``None`` if that is unknown, and then it is unknown of all.
    """
    since: list[dt.datetime] = []
    for behind in found:
        if behind is None:
            return None
        since += [] if behind.since is None else [behind.since]
    return BehindRoot(min(since, default=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamChain:
    """
    The jobs whose views lead to one upstream of a job.

    :param jobs: the jobs, in the order in which they run; none if the upstream is no view.
    :param behind_root: how far the job's view is behind the root of the chain; ``None`` if there is no chain, or if it
        is unknown.
    """

    jobs: tuple[ChainedJob, ...] = ()
    behind_root: BehindRoot | None = None


NO_CHAIN = UpstreamChain()
"""The chain of an upstream that is no view."""


def waits_for(chain: Sequence[ChainedJob]) -> str:
    """
    Return which unfinished jobs the job at the end of a chain waits for; empty if it waits for none.

    :param chain: the jobs before it, in the order in which they run.
    :returns: such as ``waits for paid_orders, 43 %``.
    """
    unfinished = takewhile(lambda job: not job.finished, reversed(chain))
    names = ", which waits for ".join(map(str, unfinished))
    return names and f"waits for {names}"
