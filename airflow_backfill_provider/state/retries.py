"""
How long a writer of a control table retries while others commit first.

Any number of task runs may report at the same moment. Of concurrent writers, one succeeds. The others wait for a random
time that grows with each attempt, so that they spread out. Because one always succeeds, the number of writers bounds
the time that each needs. The total time is limited too, in case something else writes without end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import RetryCallState, RetryError, Retrying, retry_if_exception_type, wait_random_exponential

Answer = TypeVar("Answer")


class CommitConflictError(Exception):
    """Another writer committed first, so the decision is outdated."""


class RetriesExhaustedError(Exception):
    """
    Other writers committed first for too long.

    :param attempts: the number of attempts.
    :param seconds: the time that they took.
    """

    def __init__(self, attempts: int, seconds: float) -> None:
        super().__init__(attempts, seconds)
        self.attempts = attempts
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """
    The rule by which a writer retries.

    :param longest: no further attempt begins after this number of seconds.
    :param first_wait: the longest wait after the first attempt, in seconds; it doubles with each attempt.
    :param longest_wait: the upper limit of waits, in seconds.
    :param sleep: waits for a number of seconds.
    :param clock: a monotonic clock, in seconds.
    """

    longest: float = 300.0
    first_wait: float = 0.05
    longest_wait: float = 15.0
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def until_not_overtaken(self, attempt: Callable[[], Answer]) -> Answer:
        """
        Call an attempt until it does not raise :class:`CommitConflictError`, and return its result.

        :raises RetriesExhaustedError: if that takes too long.
        """
        began = self.clock()

        def is_over(state: RetryCallState) -> bool:
            del state
            return self.clock() - began >= self.longest

        retrying = Retrying(
            retry=retry_if_exception_type(CommitConflictError),
            wait=wait_random_exponential(multiplier=self.first_wait, max=self.longest_wait),
            stop=is_over,
            sleep=self.sleep,
        )
        try:
            return retrying(attempt)
        except RetryError as error:
            raise RetriesExhaustedError(error.last_attempt.attempt_number, self.clock() - began) from error


PATIENT = RetryPolicy()
"""The rule of all writers."""
