"""What people want to know of a finished verification."""

from __future__ import annotations

import datetime as dt
from typing import Self

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.differences import DifferenceKind, DifferingKey
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.core.verification import Verification
from airflow_backfill_provider.core.vnodes import format_vnodes

SAMPLE = 10
"""Differing keys that are shown at most."""


class VerifiedState(BaseModel):
    """
    What a verification found.

    :param number: of the job's verifications, from 1.
    :param epoch: the epoch whose commit was verified.
    :param upstream_version: the upstream's version that the view was compared at.
    :param view_version: the view's version that was compared.
    :param equal: whether the view is its query, row by row.
    :param expected_rows: rows that the query gives.
    :param found_rows: rows that the view has.
    :param vnodes: the vnodes that differ, as people write them.
    :param keys: how many keys differ, by kind: ``missing``, ``unexpected``, ``repeated``, ``different``.
    :param sample: the first keys that differ.
    :param verified_at: when it ended.
    :param requested_by: who asked for it.
    """

    model_config = ConfigDict(frozen=True)

    number: int
    epoch: int
    upstream_version: Offset
    view_version: int
    equal: bool
    expected_rows: int
    found_rows: int
    vnodes: str
    keys: dict[DifferenceKind, int]
    sample: tuple[DifferingKey, ...]
    verified_at: dt.datetime
    requested_by: str

    @classmethod
    def of(cls, verification: Verification) -> Self:
        """Describe a finished verification."""
        pinned, differences = verification.pinned, verification.differences
        return cls(
            number=pinned.number,
            epoch=pinned.epoch,
            upstream_version=pinned.upstream_version,
            view_version=pinned.view_version,
            equal=verification.equal,
            expected_rows=verification.expected_rows,
            found_rows=verification.found_rows,
            vnodes=format_vnodes(difference.vnode for difference in differences),
            keys={kind: sum(getattr(difference, kind) for difference in differences) for kind in DifferenceKind},
            sample=verification.keys[:SAMPLE],
            verified_at=verification.verified_at,
            requested_by=str(pinned.begun_by),
        )

    @property
    def differing_keys(self) -> int:
        """How many keys differ."""
        return sum(self.keys.values())
