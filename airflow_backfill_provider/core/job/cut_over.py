"""
When a view that is ready goes live: at once, or once somebody has seen the difference and approved it.

An approval is about one definition in one incarnation. So it holds for later epochs of the same, and for nothing else.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, StrictFloat, StrictInt, model_validator

from airflow_backfill_provider.core.digest import digest
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.job.keep import KeptRows


class CutOver(StrEnum):
    """
    When a view that is ready goes live.

    ``auto``: at once. ``on_approval``: once a user has approved the difference to the view that serves.
    """

    AUTO = "auto"
    ON_APPROVAL = "on_approval"


class CutOverKind(StrEnum):
    """What goes live."""

    BACKFILL = "backfill"
    REBUILD = "rebuild"
    CHANGE = "change"

    @property
    def words(self) -> str:
        """What it is called in a sentence."""
        return {
            CutOverKind.BACKFILL: "the backfill",
            CutOverKind.REBUILD: "the rebuild",
            CutOverKind.CHANGE: "the changed query",
        }[self]


LONGEST_TIMEOUT = 24 * 365

TimeoutField = Annotated[StrictInt | StrictFloat, Field(gt=0, le=LONGEST_TIMEOUT, allow_inf_nan=False)]


class GatedCutOver(KeptRows):
    """
    The fields of a job that say when a view that is ready goes live.

    :param cut_over: when a backfill, a rebuild beside the view or a changed query that is ready goes live: ``auto``,
        the default, at once; ``on_approval`` once a user has approved the difference to the view that serves.
    :param cut_over_timeout_hours: with ``on_approval``, the hours after which a rebuild or a changed query that nobody
        has approved is given up; by default it waits for ever, and so does a first backfill in any case.
    """

    cut_over: Annotated[CutOver, Field(exclude_if=lambda when: when is CutOver.AUTO)] = CutOver.AUTO
    cut_over_timeout_hours: Annotated[TimeoutField | None, Field(exclude_if=lambda hours: hours is None)] = None

    @model_validator(mode="after")
    def _waits_for_something(self) -> Self:
        if self.cut_over_timeout_hours is not None and not self.waits_for_approval:
            raise InvalidJobError(
                "cut_over_timeout_hours: nothing waits for an approval; give cut_over: on_approval, or leave it out"
            )
        return self

    @property
    def waits_for_approval(self) -> bool:
        """Whether what is ready waits for an approval."""
        return self.cut_over is CutOver.ON_APPROVAL

    @property
    def cut_over_timeout(self) -> dt.timedelta | None:
        """How long it waits; ``None`` for ever."""
        hours = self.cut_over_timeout_hours
        return None if hours is None else dt.timedelta(hours=hours)


class CutOverSubject(Frozen):
    """
    What goes live: one definition in one incarnation.

    :param incarnation: the incarnation of the view that waits; of a changed query, that of the view that serves.
    :param definition: digest of its definition, without what only initializes the settings.
    :param proposal: the number of the settings' record that proposed a changed query; 0 of anything else.
    """

    kind: CutOverKind
    incarnation: str
    definition: str
    proposal: Annotated[int, Field(exclude_if=lambda number: not number)] = 0

    @classmethod
    def of(cls, kind: CutOverKind, incarnation: str, definition: dict[str, Any], proposal: int = 0) -> Self:
        """
        Return what goes live.

        :param definition: as :meth:`~airflow_backfill_provider.core.job.definition.BackfillJob.definition` has it.
        """
        return cls(kind=kind, incarnation=incarnation, definition=digest(definition), proposal=proposal)


class ProposedDefinition(Frozen):
    """
    A changed definition that waits for an approval, as it was checked.

    :param fields: what the settings become, as JSON by their names: ``job``, ``strategy``, ``shape``, ``upstream`` and
        ``view_columns``.
    :param sequence: the number of the settings' record that proposes it.
    """

    sequence: int
    fields: dict[str, Any]
    proposed_by: str
    proposed_at: dt.datetime


class ApprovedCutOver(Frozen):
    """
    An approval.

    :param subject: what was approved.
    :param difference: the number of the difference that was shown.
    :param versions: the versions that it compared: of the view that serves and the one that waits, and the offsets of
        the upstreams that they are at.
    """

    subject: CutOverSubject
    difference: int
    versions: dict[str, Any]
    approved_by: str
    approved_at: dt.datetime
