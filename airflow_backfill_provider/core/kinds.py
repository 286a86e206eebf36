"""
The kinds of the three seams (source, strategy, shape), each found by its name.

A kind is one module in its seam's folder, and one line there registers it. The package registers all of its own when it
is imported, so every process knows them. A kind from outside of the package is registered in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from airflow_backfill_provider.core.errors import InvalidJobError

if TYPE_CHECKING:
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

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all kinds."""
        return tuple(self._kinds)


class JobSource(Protocol):
    """What the core asks of a kind of source; the whole interface is :mod:`airflow_backfill_provider.sources.base`."""

    @property
    def name(self) -> str:
        """The kind's name in job definitions."""
        ...

    @property
    def definition(self) -> Any:
        """What a job says of an upstream of this kind: a subclass of ``core.upstream.UpstreamDefinition``."""
        ...


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


class JobQuery(Protocol):
    """What the core asks of a query that some shape takes."""

    def columns_of(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return those of the upstream's columns that the query may use, in the upstream's order."""
        ...


class JobShape(Protocol):
    """What the core asks of a shape; the whole interface is :mod:`airflow_backfill_provider.shapes.base`."""

    @property
    def name(self) -> str:
        """The shape's name."""
        ...

    def query(self, text: str) -> JobQuery:
        """
        Read a query.

        :raises InvalidJobError: if it is not of this shape.
        """
        ...

    def require_job(self, job: Any) -> None:
        """
        Refuse a definition with a query of this shape that asks for something that the shape cannot do.

        :raises InvalidJobError: naming the field.
        """
        ...


SOURCES: Kinds[JobSource] = Kinds("source")
"""What an upstream is. The first kind needs no name in a job's definition."""

STRATEGIES: Kinds[JobStrategy] = Kinds("strategy")
"""How history is read. Under ``auto`` the first one that fits is taken."""

SHAPES: Kinds[JobShape] = Kinds("shape")
"""What a query makes of rows. The first one that takes a query is its shape."""


def shape_of(query: str) -> JobShape:
    """
    Return the shape of a query.

    :raises InvalidJobError: if no shape takes it; with what the first one says of it.
    """
    refusals = []
    for shape in SHAPES:
        try:
            shape.query(query)
        except InvalidJobError as refusal:
            refusals.append(refusal)
        else:
            return shape
    raise refusals[0]
