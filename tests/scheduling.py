"""Hands out tests to the processes of a run: what shares a server goes to one of them."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

from tests.selection import unit_of


class UnitScheduling(LoadFileScheduling):
    """Hands out whole units: files, and folders whose tests share a server."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
