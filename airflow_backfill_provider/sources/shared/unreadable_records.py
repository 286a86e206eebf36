"""What a job does with records of its upstream that their format cannot read."""

from __future__ import annotations

from enum import StrEnum


class UnreadableRecords(StrEnum):
    """What an epoch does with records that their format cannot read."""

    FAIL = "fail"
    DEAD_LETTER = "dead_letter"
