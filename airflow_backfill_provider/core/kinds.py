"""
The kinds of the three seams (source, strategy, shape), each found by its name.

A kind is one module in its seam's folder, and one line there registers it. The core imports none of these folders: it
loads a seam by name when one of its kinds is first asked for, as plugins are loaded. So a job finds every kind in
whatever process it is defined, and a kind from outside of the package is as good as one of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar, cast

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan import Scan


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Kind = TypeVar("Kind", bound=_Named)


class Kinds(Generic[Kind]):
    """
    The kinds of one seam, in the order in which they were registered.

    :param seam: what the seam is called in messages.
    """

    def __init__(self, seam: str) -> None:
        self._seam = seam
        self._kinds: dict[str, Kind] = {}

    def register(self, kind: Kind) -> None:
        """
        Make a kind known under its name.

        :raises ValueError: if another kind has that name.
        """
        if self._kinds.setdefault(kind.name, kind) is not kind:
            raise ValueError(f"a {self._seam} of the name {kind.name} is registered already")

    def forget(self, name: str) -> None:
        """Take a kind's registration back, if it has one."""
        self._kinds.pop(name, None)

    def named(self, name: str) -> Kind:
        """
        Return the kind of a name.

        :raises InvalidJobError: if there is none, with the names that there are.
        """
        if name not in self._kinds:
            raise InvalidJobError(f"{self._seam}: {name} is not known; allowed are {', '.join(self._kinds)}")
        return self._kinds[name]

    def __iter__(self) -> Iterator[Kind]:
        return iter(tuple(self._kinds.values()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all kinds."""
        return tuple(self._kinds)


class JobStrategy(Protocol):
    """What the core asks of a strategy; the whole interface is :mod:`airflow_backfill_provider.strategies.base`."""

    @property
    def name(self) -> str:
        """The strategy's name in job definitions."""
        ...

    def require_job(self, job: Any) -> None:
        """
        Refuse a definition that names the strategy, and asks for something that it cannot do.

        :raises InvalidJobError: naming the field.
        """
        ...

    def require_auto(self, job: Any) -> None:
        """
        Refuse a definition that leaves the choice open, if the upstream's statistics may ask for this strategy.

        :raises InvalidJobError: naming the field.
        """
        ...

    def scan(self, settings: Any) -> Scan:
        """Return the order in which the strategy scans a job's upstream, and what its ranges mean for vnodes."""
        ...


def strategies() -> Kinds[JobStrategy]:
    """Return the strategies."""
    return cast("Kinds[JobStrategy]", importlib.import_module("airflow_backfill_provider.strategies").KINDS)
