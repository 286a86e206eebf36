"""The result of a finished verification, for people."""

from __future__ import annotations

import datetime as dt
from typing import Self

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.vnodes import format_vnodes
from airflow_backfill_provider.core.status.differences import DifferenceKind, DifferingKey
from airflow_backfill_provider.core.status.verification import Verification

SAMPLE = 10
"""The most differing keys in a result."""


class VerifiedState(BaseModel):
    """
    The result of a verification.

    :param number: the number among the job's verifications, from 1.
    :param epoch: the epoch that was verified.
    :param upstream_version: the upstream's offset that the view was compared at.
    :param view_version: the version of the view that was compared.
    :param equal: whether the view equals its query, row by row.
    :param expected_rows: rows that the query returns.
    :param found_rows: rows that the view has, without the removed ones.
    :param removed_rows: rows of the view that cannot be compared, because the upstream has removed them since.
    :param vnodes: the vnodes that differ, such as ``0-15, 20``.
    :param keys: the number of differing keys by kind: ``missing``, ``unexpected``, ``repeated``, ``different``.
    :param sample: the first differing keys.
    :param verified_at: when it ended.
    :param requested_by: who requested it.
    """

    model_config = ConfigDict(frozen=True)

    number: int
    epoch: int
    upstream_version: Offset
    view_version: int
    equal: bool
    expected_rows: int
    found_rows: int
    removed_rows: int = 0
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
            removed_rows=verification.removed_rows,
            vnodes=format_vnodes(difference.vnode for difference in differences),
            keys={kind: sum(getattr(difference, kind) for difference in differences) for kind in DifferenceKind},
            sample=verification.keys[:SAMPLE],
            verified_at=verification.verified_at,
            requested_by=str(pinned.begun_by),
        )

    @property
    def differing_keys(self) -> int:
        """The number of keys that differ."""
        return sum(self.keys.values())
