"""
How long a writer of a control table goes on when others are faster.

Any number of runs may report at the same moment. Of those that write at once, one succeeds; the others wait for a
random time that grows with each attempt, so that they spread out. Somebody always succeeds, so the time that a writer
needs is bounded by how many there are; the total time is bounded in case something else writes without end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import RetryCallState, RetryError, Retrying, retry_if_exception_type, wait_random_exponential

Answer = TypeVar("Answer")


class OvertakenError(Exception):
    """Somebody else committed first; what was decided is decided anew."""


class GaveUpError(Exception):
    """
    Others were faster for too long.

    :param attempts: how often.
    :param seconds: for how long.
    """

    def __init__(self, attempts: int, seconds: float) -> None:
        super().__init__(attempts, seconds)
        self.attempts = attempts
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """
    The rule by which a writer tries again.

    :param longest: seconds after which no further attempt begins.
    :param first_wait: the longest wait after the first attempt, in seconds; each later one may be twice as long.
    :param longest_wait: the longest wait of all, in seconds.
    :param sleep: waits for some seconds.
    :param clock: returns seconds that only grow.
    """

    longest: float = 300.0
    first_wait: float = 0.05
    longest_wait: float = 15.0
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def until_not_overtaken(self, attempt: Callable[[], Answer]) -> Answer:
        """
        Return what an attempt returns; it is made again as long as it raises :class:`OvertakenError`.

        :raises GaveUpError: if that took too long.
        """
        began = self.clock()

        def is_over(state: RetryCallState) -> bool:
            del state
            return self.clock() - began >= self.longest

        retrying = Retrying(
            retry=retry_if_exception_type(OvertakenError),
            wait=wait_random_exponential(multiplier=self.first_wait, max=self.longest_wait),
            stop=is_over,
            sleep=self.sleep,
        )
        try:
            return retrying(attempt)
        except RetryError as error:
            raise GaveUpError(error.last_attempt.attempt_number, self.clock() - began) from error


PATIENT = Patience()
"""How all writers try again."""
