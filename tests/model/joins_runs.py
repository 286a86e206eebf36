"""
Drivers: play a random history of a view over several upstreams. See :mod:`tests.model.groups_runs` for what happens.

Besides, a dimension may have its key twice. Then the epoch is refused before it writes; its barrier is withdrawn, and
the next window starts where that one did.
"""

from __future__ import annotations

from contextlib import suppress

from tests.model.groups_barriers import Barriers
from tests.model.groups_job import Job, Strategy
from tests.model.groups_queries import GroupQuery
from tests.model.groups_runs import GroupsRun
from tests.model.groups_scan import Barrier
from tests.model.joins_job import DuplicateKeyError, JoinedJob, JoinProtocol
from tests.model.joins_queries import JoinQuery
from tests.model.joins_stage1 import Stage1
from tests.model.joins_tables import a_world
from tests.model.truth import InvariantError


class JoinsRun(GroupsRun):
    """One history: several upstreams, a view over them, and all that happens to it."""

    def __init__(
        self,
        seed: int | str,
        stage_1: JoinQuery,
        stage_2: GroupQuery,
        strategy: Strategy,
        protocol: JoinProtocol | None = None,
        *,
        doubled: tuple[str, ...] = (),
    ) -> None:
        self._stage_1, self._rules, self._doubled = stage_1, protocol or JoinProtocol(), doubled
        super().__init__(f"{seed}/{stage_1.name}", stage_2, strategy, self._rules)

    def history(self) -> Stage1:
        """Return what the view reads: the rows of stage 1."""
        return Stage1(a_world(self.random, self._stage_1.tables, doubled=self._doubled), self._stage_1)

    def job(self, base: int, incarnation: int = 1) -> JoinedJob:
        """Return an incarnation. It starts where no dimension has a key twice: creation refuses all else."""
        upstream = self.upstream
        assert isinstance(upstream, Stage1)
        while True:
            job = JoinedJob(upstream, self.query, self.strategy, base, self._rules, incarnation=incarnation)
            if not job.doubles(base):
                return job
            base += 1

    def epoch(self, given: Barriers) -> None:
        """Run an epoch to its commit, or to its refusal."""
        pinned = vars(given).copy()
        try:
            super().epoch(given)
        except DuplicateKeyError:
            self.happened["refusals"] += 1
            if self._rules.withdrawn == "its window starts again":
                vars(given).update(pinned)
            given.longest += 1  # time goes on until the owner corrects the table
        else:
            self._check_keys(given.job, given.job.committed_to)

    def _zombie_step(self, job: Job | None = None, barrier: Barrier | None = None) -> None:
        try:
            super()._zombie_step(job, barrier)
        except DuplicateKeyError:
            self.happened["refusals"] += 1

    def _leave_an_epoch_under_way(self, served: Barriers, successor: Job) -> None:
        with suppress(DuplicateKeyError):
            super()._leave_an_epoch_under_way(served, successor)

    def _may_be_damaged(self, job: Job, barrier: Barrier) -> bool:
        return not self._doubled and super()._may_be_damaged(job, barrier)

    def _check_keys(self, job: Job, instant: int) -> None:
        assert isinstance(job, JoinedJob)
        waits = self.strategy.visibility == "on_finish" and not job.is_finished
        if not waits and job.doubles(instant):
            raise InvariantError(f"I6 no silent damage: a dimension has a key twice at {instant}")
