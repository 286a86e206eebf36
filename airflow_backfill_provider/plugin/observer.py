"""The jobs that the pages show. They are read in parallel, and a bounded number of them is cached."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from cachetools import LRUCache

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.hooks.backfill import BackfillHook
from airflow_backfill_provider.plugin.observed_job import JobReading, ObservedJob
from airflow_backfill_provider.plugin.registry import RegisteredJob

log = logging.getLogger(__name__)

MOST_JOBS = 2000
"""The most jobs that are cached; each takes some kilobytes."""

THREADS = 8

FIRST_LOOK_SECONDS = 1.0
"""How long a list waits for jobs that were never read."""

NEXT_LOOK_SECONDS = 0.05
"""How long a list waits for other jobs; it then shows the last readings, and the next request gets the new ones."""

UNREADABLE = "The job's tables cannot be read; see the API server's log."


@dataclass(frozen=True, slots=True)
class Observation:
    """
    The known state of a job.

    :param reading: the last reading of the job; ``None`` if it was never read.
    :param problem: why the job cannot be read.
    """

    reading: JobReading | None = None
    problem: str | None = None


class JobObserver:
    """Reads jobs, and caches the readings."""

    def __init__(self) -> None:
        self._observed: LRUCache[str, ObservedJob] = LRUCache(MOST_JOBS)
        self._problems: LRUCache[str, str] = LRUCache(MOST_JOBS)
        self._looking: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="backfill-pages")

    def job(self, job: RegisteredJob) -> ObservedJob:
        """Return the observed job, which caches its readings."""
        with self._lock:
            observed = self._observed.get(job.key)
            if observed is None:
                observed = ObservedJob(lambda: BackfillHook(job.backfill_conn_id).open(job.definition))
                self._observed[job.key] = observed
            return observed

    def observe_one(self, job: RegisteredJob) -> Observation:
        """Read one job, and wait for it."""
        future, _ = self._begin(job, self.job(job))
        wait([future], FIRST_LOOK_SECONDS)
        return self.observe([job])[0]

    def observe(self, jobs: Sequence[RegisteredJob]) -> list[Observation]:
        """
        Read some jobs, but don't wait long: for slow ones, return the last reading.

        :returns: an observation for each job, in order.
        """
        observed = [self.job(job) for job in jobs]
        looking = [self._begin(job, found) for job, found in zip(jobs, observed, strict=True) if not found.fresh]
        unknown = [future for future, known in looking if not known]
        wait(unknown, FIRST_LOOK_SECONDS)
        wait([future for future, _ in looking], NEXT_LOOK_SECONDS)
        with self._lock:
            return [
                Observation(found.last, self._problems.get(job.key)) for job, found in zip(jobs, observed, strict=True)
            ]

    def _begin(self, job: RegisteredJob, observed: ObservedJob) -> tuple[Future[None], bool]:
        with self._lock:
            known = observed.last is not None or job.key in self._problems
            future = self._looking.get(job.key)
            if future is None or future.done():
                future = self._looking[job.key] = self._threads.submit(self._look, job, observed)
            return future, known

    def _look(self, job: RegisteredJob, observed: ObservedJob) -> None:
        try:
            observed.look()
            problem = None
        except BackfillError as error:
            problem = str(error)
        except Exception:
            log.exception("Job %s cannot be read", job.name)
            problem = UNREADABLE
        with self._lock:
            self._looking.pop(job.key, None)
            if problem is None:
                self._problems.pop(job.key, None)
                return
            self._problems[job.key] = problem
            # The next read opens the job again, because its connection may be wrong.
            self._observed.pop(job.key, None)
