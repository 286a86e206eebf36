"""
What users ask of a job's speed: the rate limit, the seconds that an epoch may take, and the pace.

The rate limit counts rows per epoch; ``auto`` leaves their number to
:mod:`~airflow_backfill_provider.core.epoch.auto_rate`. The pace counts rows per second. It holds for runs of several
epochs, and it keeps a single chunk small, whatever the rate limit is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import BeforeValidator, Field, StrictFloat, StrictInt, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.frozen import Frozen

AUTO: Literal["auto"] = "auto"
"""Leaves the number of rows of each chunk to the measured speed of the epochs before it."""

GREATEST_RATE_LIMIT = 2**63 - 1

TARGET_SECONDS = 60.0
"""How long an epoch should take, unless the job says otherwise."""

LONGEST_TARGET = 86_400.0

RateLimit = Literal["auto"] | int | None
"""Snapshot rows per epoch; ``None`` is unlimited, 0 reads none."""


_ROWS: TypeAdapter[int | None] = TypeAdapter(Annotated[StrictInt, Field(ge=0, le=GREATEST_RATE_LIMIT)] | None)


def _rows_or_auto(value: Any) -> Any:
    if value == AUTO:
        return value
    try:
        return _ROWS.validate_python(value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        # One problem with the field's own name; a union would report one for each of its types.
        raise PydanticCustomError("rate_limit", "{problem}, or 'auto'", {"problem": problem["msg"]}) from None


RateLimitField = Annotated[RateLimit, BeforeValidator(_rows_or_auto)]
TargetField = Annotated[StrictInt | StrictFloat, Field(gt=0, le=LONGEST_TARGET, allow_inf_nan=False)]
PaceField = Annotated[StrictInt, Field(ge=1, le=GREATEST_RATE_LIMIT)]


@dataclass(frozen=True, slots=True)
class ChosenLimit:
    """
    A rate limit in force.

    :param rows: snapshot rows; ``None`` is unlimited, 0 reads none.
    :param reason: why, as the end of a sentence; empty if it is what the settings say.
    """

    rows: int | None
    reason: str = ""


class AsksRate(Protocol):
    """What asks for a speed: a job's definition, or its settings."""

    @property
    def rate_limit(self) -> RateLimit:
        """Snapshot rows per epoch, or ``auto``."""
        ...

    @property
    def target_epoch_seconds(self) -> float | None:
        """How long an epoch should take."""
        ...

    @property
    def max_rows_per_second(self) -> int | None:
        """The pace of runs of several epochs."""
        ...


class AskedRate(Frozen):
    """
    What is asked of a job's speed.

    :param rate_limit: snapshot rows per epoch, or ``auto``.
    :param target_epoch_seconds: how long an epoch should take; only with ``auto``. By default :data:`TARGET_SECONDS`.
    :param max_rows_per_second: the pace of runs of several epochs, in snapshot rows; ``None`` is unlimited.
    """

    rate_limit: RateLimitField = None
    target_epoch_seconds: TargetField | None = None
    max_rows_per_second: PaceField | None = None

    @classmethod
    def of(cls, holder: AsksRate) -> Self:
        """Return what a job's definition or its settings ask for."""
        return cls.model_validate({name: getattr(holder, name) for name in cls.model_fields})

    @classmethod
    def checked(cls, **fields: Any) -> Self:
        """
        Return what is asked, from values that a user gave.

        :raises InvalidJobError: naming each wrong field and what is allowed.
        """
        try:
            return cls(**fields)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            raise InvalidJobError(
                "; ".join(
                    ": ".join([*map(str, problem["loc"]), problem["msg"].removeprefix("Value error, ")])
                    for problem in problems
                )
            ) from None

    @model_validator(mode="after")
    def _target_of_auto(self) -> Self:
        require_target_of_auto(self.rate_limit, self.target_epoch_seconds)
        return self

    @property
    def is_auto(self) -> bool:
        """Whether the measured speed decides."""
        return self.rate_limit == AUTO

    @property
    def limits(self) -> dict[str, object]:
        """The fields that limit the speed, by name; ``None`` for no limit."""
        return {"rate_limit": self.rate_limit, "max_rows_per_second": self.max_rows_per_second}

    @property
    def target(self) -> float:
        """How long an epoch should take, in seconds."""
        return TARGET_SECONDS if self.target_epoch_seconds is None else float(self.target_epoch_seconds)

    @property
    def most_by_pace(self) -> int | None:
        """The most rows of a chunk that the pace allows; ``None`` if there is no pace."""
        if self.max_rows_per_second is None:
            return None
        return max(math.floor(self.max_rows_per_second * self.target), 1)

    @property
    def fixed(self) -> ChosenLimit:
        """The limit of a number of rows, or of no number: the measured speed changes nothing, but the pace does."""
        wanted = self.rate_limit if isinstance(self.rate_limit, int) else None
        most = self.most_by_pace
        if most is None or (wanted is not None and wanted <= most):
            return ChosenLimit(wanted)
        return ChosenLimit(
            most,
            f"because max_rows_per_second is {self.max_rows_per_second:,}, and a chunk has no more rows than "
            f"{text.duration(self.target)} of that",
        )

    def in_force(self, pinned_limit: int | None, pinned: PinnedRate | None) -> dict[str, Any]:
        """
        Return the fields of a job's status about its rate.

        :param pinned_limit: the rate limit of the newest barrier.
        :param pinned: why that barrier has it. A choice of ``auto``, or a limit that was raised, is in force once a
            barrier has it.
        """
        limit = ChosenLimit(None) if self.is_auto else self.fixed
        if pinned is not None and pinned.asked == self.rate_limit:
            most = self.fixed.rows
            is_raised = most and (pinned_limit is None or pinned_limit > most)
            if self.is_auto or is_raised:
                limit = ChosenLimit(pinned_limit, pinned.reason)
        return {
            "rate_limit": self.rate_limit,
            "effective_rate_limit": limit.rows,
            "rate_limit_reason": limit.reason,
            "target_epoch_seconds": self.target if self.is_auto else None,
            "max_rows_per_second": self.max_rows_per_second,
        }


class PinnedRate(Frozen):
    """
    Why a barrier has its rate limit, if that is not what the job's settings say.

    :param asked: the rate limit in the settings.
    :param reason: why the barrier's limit was chosen, as the end of a sentence.
    :param row_bytes: the estimated size of a row in the upstream's files, in bytes; ``None`` if it is unknown.
    """

    asked: RateLimit
    reason: str
    row_bytes: float | None = None


def described_limit(asked: RateLimit, rows: int | None, reason: str) -> str:
    """
    Describe a rate limit in words.

    :param asked: the rate limit in the settings.
    :param rows: the rate limit in force; ``None`` if there is none, or if ``auto`` has not chosen one yet.
    :param reason: why it is in force, as the end of a sentence; may be empty.
    """
    if asked == AUTO and rows is None:
        return "auto: chosen when the next epoch is pinned"
    limit = "unlimited" if rows is None else f"{text.rows(rows)} per epoch"
    return f"{'auto: ' if asked == AUTO else ''}{limit}{f', {reason}' if reason else ''}"


def require_target_of_auto(rate_limit: RateLimit, target: float | None) -> None:
    """
    Refuse a target without the rate limit that aims at it.

    :raises InvalidJobError: saying what to do.
    """
    if target is not None and rate_limit != AUTO:
        raise InvalidJobError(
            "target_epoch_seconds: only rate_limit auto aims at a number of seconds; set rate_limit: auto, or "
            "leave it out"
        )
