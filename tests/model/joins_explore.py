"""Every schedule of two attempts of an epoch of a view over several upstreams; see the model of groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

from tests.model.groups_explore import Start
from tests.model.groups_job import Job
from tests.model.joins_job import JoinedJob, JoinProtocol
from tests.model.joins_queries import JoinQuery
from tests.model.joins_stage1 import Stage1
from tests.model.joins_tables import a_world

LENGTH = 40
"""So many instants that there are changes left once the view is finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStart(Start):
    """Where the search begins."""

    stage_1: JoinQuery

    def job(self) -> Job:
        """Return the view before its first epoch."""
        upstream = _upstream(self.seed, self.stage_1)
        return JoinedJob(upstream, self.query, self.strategy, 0, JoinProtocol())


@cache
def _upstream(seed: int, query: JoinQuery) -> Stage1:
    return Stage1(a_world(Random(seed), query.tables, length=LENGTH), query, LENGTH)
