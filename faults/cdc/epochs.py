"""The epochs of a case: each is attempted under a fault until it is committed, and then compared with the truth."""

from __future__ import annotations

import random

from faults.campaign import WrongError
from faults.cdc.case_database import CaseDatabase
from faults.cdc.harm import Harm
from faults.cdc.jobs import DrawnLakehouse
from faults.cdc.truth import Truth
from faults.cdc.writer import WriterProcess

MOST_EPOCHS = 60


class Epochs:
    """
    Runs epochs of a case's jobs.

    :param chance: decides on the jobs and the faults.
    """

    def __init__(
        self,
        chance: random.Random,
        database: CaseDatabase,
        writer: WriterProcess,
        jobs: list[DrawnLakehouse],
        truth: Truth,
        harm: Harm,
    ) -> None:
        self.chance = chance
        self.database = database
        self.writer = writer
        self.jobs = jobs
        self.truth = truth
        self.harm = harm

    def run_some(self, count: int) -> None:
        """Run epochs of jobs that are drawn."""
        for _ in range(count):
            self.run(self.chance.choice(self.jobs))

    def run(self, job: DrawnLakehouse) -> None:
        """Attempt an epoch under a fault, and then until it is committed; compare the view."""
        self.harm.draw()(job)
        self.database.wait()
        self.harm.until_committed(job)
        self.truth.require_consistent(job)

    def require_right(self) -> None:
        """Pause the writer, run the jobs to their ends, and compare with the query that the database evaluates."""
        self.database.wait()
        self.writer.do("pause")
        for job in self.jobs:
            self._finish(job)
            self.truth.require_right(job)

    def _finish(self, job: DrawnLakehouse) -> None:
        for _ in range(MOST_EPOCHS):
            if job.epoch() is None:
                return
            self.truth.require_consistent(job)
        raise WrongError(f"I4: there is still something to do after {MOST_EPOCHS} epochs")
