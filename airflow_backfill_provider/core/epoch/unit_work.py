"""What an epoch did with the units of a view: which it wrote anew, how, and what it read again for that."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from airflow_backfill_provider.core.frozen import Frozen

WHOLE = "full"
"""The technique of an epoch that computes the whole view."""

UNIT = "unit"
"""The technique of an epoch that joins rows of the lead anew."""


class UnitWork(Frozen):
    """
    What an epoch did to apply changes to a view of groups or of a join, or to one that is computed whole.

    :param technique: how it did that: ``slice`` computes the touched units anew from their rows, ``fold`` adds the
        changes to their state, ``unit`` joins the rows of a lead anew, ``full`` computes the whole view.
    :param units: the units that the changes touch; ``None`` if the whole view was computed.
    :param rows_read: rows of the upstream that were read again; ``None`` if that is unknown.
    """

    technique: str
    units: Annotated[int | None, Field(exclude_if=lambda units: units is None)] = None
    rows_read: Annotated[int | None, Field(exclude_if=lambda rows: rows is None)] = None
