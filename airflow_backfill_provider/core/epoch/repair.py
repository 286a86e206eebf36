"""Repairs: rows of a view to rewrite, whatever they hold now."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.scan.keys import EncodedPosition

MOST_KEYS = 10_000
"""The most keys in one repair; the barrier pins each of them."""

PARTIAL_REPAIR = (
    "the epoch repairs only what was chosen, and does not check the rest of the view; if something else wrote to the "
    "view, verify the job afterwards"
)
"""The warning of an epoch that repairs a part of the view; a verification answers it."""


class Repair(Frozen):
    """
    Rows of the view to rewrite, whatever they hold now, from the upstream as of ``to_offset``.

    :param vnodes: whole vnodes.
    :param keys: single keys of the upstream, encoded as text.
    :param units: single units of a view whose units are not the upstream's rows, encoded by ``Units.order``.
    """

    vnodes: tuple[int, ...] = ()
    keys: tuple[EncodedPosition, ...] = ()
    units: Annotated[tuple[EncodedPosition, ...], Field(exclude_if=lambda found: not found)] = ()

    def __add__(self, other: Repair) -> Repair:
        """Return the union of both repairs."""
        return Repair(
            vnodes=tuple(sorted({*self.vnodes, *other.vnodes})),
            keys=tuple(dict.fromkeys((*self.keys, *other.keys))),
            units=tuple(dict.fromkeys((*self.units, *other.units))),
        )

    def __bool__(self) -> bool:
        """Return whether there is anything to repair."""
        return bool(self.vnodes or self.keys or self.units)
