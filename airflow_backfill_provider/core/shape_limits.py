"""
What a job cannot ask for because of the shape of its query.

A strategy that reads history unit by unit lifts these limits, if the query tells the unit of each row: a chunk then has
whole units. A strategy that reads rows that are only appended lifts all but one, if the shape adds such rows to the
units that the view has: a chunk may have any rows, but one task run has to write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.kinds import STRATEGIES, JobShape, may_add_rows, may_read_units


@dataclass(frozen=True, slots=True)
class ShapeLimits:
    """
    What a shape declares that jobs with it cannot ask for.

    :param query: the job's query.
    :param strategy: the name of the strategy; ``None`` if it is chosen later.
    """

    shape: JobShape
    query: str
    strategy: str | None

    def require(self, *, visibility: str, parallelism: int, speed: Mapping[str, object]) -> None:
        """
        Refuse a job that asks for something that the shape cannot do.

        :raises InvalidJobError: with the field.
        """
        self._require_strategy()
        if self.usual_visibility not in {None, visibility} and not self._reads_units:
            raise InvalidJobError(
                f"visibility: a view of shape {self.shape.name} has {self.shape.only_visibility} only{self._under}; "
                f"leave visibility out{self._or_by_units}"
            )
        self.require_parallelism(parallelism)
        self.require_speed(speed)

    def require_parallelism(self, parallelism: int) -> None:
        """
        Refuse a number of parallel task runs that cannot write a view together.

        :raises InvalidJobError: with what to do.
        """
        if self.shape.single_part and parallelism > 1 and not self._reads_units:
            raise InvalidJobError(
                f"parallelism: {parallelism} task runs cannot write a view of shape {self.shape.name} together"
                f"{self._under}; leave it out{self._or_by_units}"
            )

    def require_speed(self, speed: Mapping[str, object]) -> None:
        """
        Refuse a speed for a view whose history is read in one epoch.

        :param speed: the fields of a job's definition that limit its speed, by name; ``None`` for no limit.
        :raises InvalidJobError: with the field, and what to do.
        """
        for field, value in speed.items():
            if self.reads_at_once and value is not None:
                raise InvalidJobError(
                    f"{field}: a view of shape {self.shape.name} is filled{self._under} by one epoch that reads all of "
                    f"history; leave {field} out, and pause the job to hold it back{self._or_by_units}"
                )

    def _require_strategy(self) -> None:
        names = self.shape.strategies
        if self.strategy is not None and names is not None and self.strategy not in names:
            raise InvalidJobError(
                f"strategy: {self.strategy} cannot fill a view of shape {self.shape.name}; use auto, or "
                f"{', '.join(sorted(names))}"
            )

    @property
    def usual_visibility(self) -> Any:
        """The visibility of jobs that name none; ``None`` if the shape does not decide."""
        return None if self._adds_rows else self.shape.only_visibility

    @property
    def reads_at_once(self) -> bool:
        """Whether one epoch must read all of history."""
        return self.shape.whole_history and not (self._reads_units or self._adds_rows)

    @property
    def _reads_units(self) -> bool:
        return may_read_units(self.shape, self.query, self.strategy)

    @property
    def _adds_rows(self) -> bool:
        return may_add_rows(self.shape, self.strategy)

    @property
    def _under(self) -> str:
        return f" under strategy {self.strategy}" if self._adds_rows or (self.strategy and self._or_by_units) else ""

    @property
    def _or_by_units(self) -> str:
        """What else can be done about a limit, if some strategies read the view's units one by one."""
        if self._adds_rows or not may_read_units(self.shape, self.query, None):
            return ""
        return f", or use strategy {' or '.join(kind.name for kind in STRATEGIES if kind.reads_units)}"
