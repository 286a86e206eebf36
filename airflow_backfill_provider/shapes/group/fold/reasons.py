"""Why a step cannot be folded. Then its groups are computed anew from all of their rows, which gives the same view."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """The name of a reason."""

    HAVING = "having"
    STEPS = "steps"
    EXPRESSION = "expression"
    DISTINCT = "distinct"
    FUNCTION = "function"
    FLOAT = "float"
    TYPE = "type"
    DIGITS = "digits"
    COLLATION = "collation"


@dataclass(frozen=True, slots=True)
class NotFolded:
    """
    The reason for which a step cannot be folded.

    :param reason: its name.
    :param what: the part of the query that it is about.
    :param because: what stands in the way.
    :param advice: what to write instead, if the cost matters; ``None`` if there is nothing.
    """

    reason: Reason
    what: str
    because: str
    advice: str | None = None

    def __str__(self) -> str:
        """Return the reason as one sentence."""
        return f"{self.what} cannot be folded: {self.because}" + (f"; {self.advice}" if self.advice else "")


HAVING = NotFolded(
    Reason.HAVING,
    "a step with HAVING",
    "the view has no state of the groups that HAVING leaves out",
    "make a view without HAVING, and a second job with WHERE over it",
)
