"""
The registries of the three seams' kinds (source, strategy, shape), by name.

A kind is one module or package in its seam's folder, and one line that registers it. The package registers its own
kinds on import, so every process knows them.

A kind from outside of the package is registered in the same way, in each process that opens a job of the kind. No
setting imports its module. Import it in the DAG file for the DAG processor and the workers, and in an Airflow plugin
for the triggerer and the API server. The command line, and the Spark applications that the operators submit
(``spark_apps/``), import only the package. For these, the kind has to be in the package.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.refresh import INCREMENTAL_ONLY, NO_CHOICE, WAY_OUT, Refresh

if TYPE_CHECKING:
    from airflow_backfill_provider.core.scan.keys import KeyOrder
    from airflow_backfill_provider.core.scan.scan import Scan


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Kind = TypeVar("Kind", bound=_Named)


class Kinds(Generic[Kind]):
    """
    The kinds of one seam, in order of registration.

    :param seam: the seam's name in messages.
    """

    def __init__(self, seam: str) -> None:
        self._seam = seam
        self._kinds: dict[str, Kind] = {}

    def register(self, kind: Kind, *, before: str | None = None) -> None:
        """
        Register a kind under its name.

        :param before: the kind that it is asked before; by default it is asked last. For a shape from outside that
            takes queries that one of the package's shapes would take, too.
        :raises ValueError: if another kind has this name, or none has the other name.
        """
        if self._kinds.get(kind.name, kind) is not kind:
            raise ValueError(f"a {self._seam} named {kind.name} is already registered; choose another name")
        if before is not None and before not in self._kinds:
            raise ValueError(f"no {self._seam} is named {before}; registered are {', '.join(self._kinds)}")
        self._kinds[kind.name] = kind
        if before is not None:
            asked = [name for name in self._kinds if name != kind.name]
            asked.insert(asked.index(before), kind.name)
            self._kinds = {name: self._kinds[name] for name in asked}

    def forget(self, name: str) -> None:
        """Remove a kind's registration, if it has one."""
        self._kinds.pop(name, None)

    def named(self, name: str) -> Kind:
        """
        Return the kind with a name.

        :raises InvalidJobError: if there is none; names the registered ones.
        """
        if name not in self._kinds:
            raise InvalidJobError(f"{self._seam}: {name} is unknown; allowed are {', '.join(self._kinds)}")
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
    """The part of a source's interface that the core uses; see :mod:`airflow_backfill_provider.sources.base`."""

    @property
    def name(self) -> str:
        """The kind's name in job definitions."""
        ...

    @property
    def definition(self) -> Any:
        """The class of this kind's upstream definitions: a subclass of ``core.upstream.UpstreamDefinition``."""
        ...


class JobStrategy(Protocol):
    """The part of a strategy's interface that the core uses; see :mod:`airflow_backfill_provider.strategies.base`."""

    @property
    def name(self) -> str:
        """The strategy's name in job definitions."""
        ...

    @property
    def only_visibility(self) -> Any:
        """The only visibility that the strategy supports; ``None`` if it supports all."""
        ...

    @property
    def reads_units(self) -> bool:
        """Whether the strategy lays rows out by their units, so that a chunk has whole units."""
        ...

    @property
    def reads_splits(self) -> bool:
        """Whether the strategy reads the upstreams to which rows are only appended, and no others."""
        ...

    def require_job(self, job: Any) -> None:
        """
        Refuse a definition that names this strategy but has a field that it does not support.

        :raises InvalidJobError: naming the field.
        """
        ...

    def scan(self, settings: Any) -> Scan:
        """Return the scan of a job's upstream: its order, and its bookkeeping of vnodes."""
        ...


class JobRowUnits(Protocol):
    """The part of what finds the units of rows that the core uses."""

    @property
    def order(self) -> KeyOrder:
        """The columns of a unit, with their types."""
        ...


class JobQuery(Protocol):
    """The part of a parsed query's interface that the core uses."""

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of the upstreams that it reads, as it writes each first; the first one leads."""
        ...

    @property
    def leads(self) -> tuple[str, ...]:
        """The upstreams whose history is read in chunks: the one that leads, and those that lead further branches."""
        ...

    @property
    def has_row_units(self) -> bool:
        """Whether the query tells the unit of each row, so that a strategy can read whole units."""
        ...

    def row_units(self, settings: Any) -> JobRowUnits | None:
        """Return how the unit of each row is found; ``None`` if each row is a unit."""
        ...

    def columns_of(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the upstream that the query may use, in the upstream's order."""
        ...

    def old_columns(self, available: Sequence[str]) -> tuple[str, ...] | None:
        """Return the columns of which the writer needs the values before a change; ``None`` if it needs no old row."""
        ...


class JobShape(Protocol):
    """The part of a shape's interface that the core uses; see :mod:`airflow_backfill_provider.shapes.base`."""

    @property
    def name(self) -> str:
        """The shape's name."""
        ...

    @property
    def strategies(self) -> frozenset[str] | None:
        """The names of the strategies that can fill a view of this shape; ``None`` for all."""
        ...

    @property
    def only_visibility(self) -> Any:
        """The only visibility that the shape supports; ``None`` if it supports all."""
        ...

    @property
    def default_visibility(self) -> Any:
        """The visibility of jobs that name neither one nor a strategy; ``None`` for the usual one."""
        ...

    @property
    def single_part(self) -> bool:
        """Whether one task run alone must write an epoch."""
        ...

    @property
    def whole_history(self) -> bool:
        """Whether one epoch must read all of history, so that jobs have no rate limit and no pace."""
        ...

    @property
    def adds_rows(self) -> bool:
        """Whether rows that are only appended are added to the units that the view has."""
        ...

    @property
    def has_keys(self) -> bool:
        """Whether a unit of the view is a row of the upstream, and the view holds its key."""
        ...

    @property
    def keeps_former_rows(self) -> bool:
        """Whether a view of this shape can keep rows that the query no longer gives."""
        ...

    @property
    def former_rows_by_version(self) -> bool:
        """Whether it keeps them as of each version of the upstream, and not only as of each epoch."""
        ...

    @property
    def refreshes(self) -> frozenset[Refresh]:
        """The kinds of ``refresh`` that jobs of this shape may have."""
        ...

    @property
    def needs_changes(self) -> bool:
        """Whether epochs read the upstream's changes, so that it must record them."""
        ...

    @property
    def takes_upstreams(self) -> bool:
        """Whether a query of this shape may read the tables of a job with ``upstreams``."""
        ...

    def claims(self, text: str) -> bool:
        """Return whether a query looks like one of this shape, so that its refusal is the one to show."""
        ...

    def query(self, text: str) -> JobQuery:
        """
        Parse a query.

        :raises InvalidJobError: if it does not have this shape.
        """
        ...

    def require_job(self, job: Any) -> None:
        """
        Refuse a definition with a query of this shape and a field that the shape does not support.

        :raises InvalidJobError: naming the field.
        """
        ...


SOURCES: Kinds[JobSource] = Kinds("source")
"""The kinds of upstreams. The first kind needs no name in a job's definition."""

STRATEGIES: Kinds[JobStrategy] = Kinds("strategy")
"""The ways to read history. ``auto`` chooses the first that suits the job."""

SHAPES: Kinds[JobShape] = Kinds("shape")
"""The shapes of queries. A query has the first shape that accepts it, of those that can refresh as the job asks."""


def shape_of(query: str, refresh: Refresh = Refresh.INCREMENTAL, upstreams: Collection[str] = ()) -> JobShape:
    """
    Return the shape of a query.

    :param refresh: what the job asks of its epochs.
    :param upstreams: the names of the tables that the query may read; none if it reads the only one, ``upstream``.
    :raises InvalidJobError: if no shape accepts it; with the reason of the first shape that claims the text, or else of
        the first shape; and whether ``refresh: full`` would do.
    """
    able = [shape for shape in SHAPES if shape.takes_upstreams or not upstreams]
    asked = tuple(shape for shape in able if refresh in shape.refreshes)
    if not asked:
        raise InvalidJobError(NO_SHAPE_OF_SEVERAL)
    if (accepting := _first_that_accepts(asked, query)) is not None:
        return accepting
    if refresh is Refresh.AUTO and any(
        _accepts(shape, query) for shape in SHAPES if shape.refreshes == INCREMENTAL_ONLY
    ):
        raise InvalidJobError(NO_CHOICE)
    refusals = [refusal for shape in asked if (refusal := _refusal(shape, query)) is not None]
    claims = (refusal for shape, refusal in zip(asked, refusals, strict=True) if shape.claims(query))
    refused = next(claims, refusals[0])
    way_out = any(_accepts(shape, query) for shape in able if shape not in asked and Refresh.FULL in shape.refreshes)
    raise InvalidJobError(f"{refused}; {WAY_OUT}") if way_out else refused


NO_SHAPE_OF_SEVERAL = (
    "no shape with this refresh reads several upstreams; leave refresh out, or join the tables into one view first, "
    "and name that view under upstream"
)
"""Why a job with ``upstreams`` is refused, if no shape with its ``refresh`` takes them."""


def shape_of_job(job: Any) -> JobShape:
    """Return the shape of a job's query; see :func:`shape_of`."""
    return shape_of(job.query, job.refresh, tuple(job.upstreams))


def query_of(job: Any) -> JobQuery:
    """Return a job's query, parsed by its shape."""
    return shape_of_job(job).query(job.query)


def further_leads(job: Any) -> tuple[str, ...]:
    """
    Return the upstreams of a job that lead branches of its query, beside the one that leads the job.

    :returns: their names in the job's definition, in the order of the query; none for most jobs.
    """
    if not job.others:
        return ()
    leads = query_of(job).leads
    if len(leads) == 1:
        # The query of a join names the first one in FROM, and the job may let another one lead.
        return ()
    known = {name.lower(): name for name in job.others}
    return tuple(known[name.lower()] for name in leads if name.lower() in known)


# Each epoch asks dozens of times, and a shape that refuses a query parses it anew.
@lru_cache(maxsize=256)
def _first_that_accepts(shapes: tuple[JobShape, ...], query: str) -> JobShape | None:
    """Return the first of some shapes that accepts a query, if one does."""
    return next((shape for shape in shapes if _accepts(shape, query)), None)


def _accepts(shape: JobShape, query: str) -> bool:
    return _refusal(shape, query) is None


def _refusal(shape: JobShape, query: str) -> InvalidJobError | None:
    """Return why a shape refuses a query; nothing if it accepts it."""
    try:
        shape.query(query)
    except InvalidJobError as refusal:
        return refusal
    return None


def may_read_units(shape: JobShape, query: str, strategy: str | None) -> bool:
    """
    Return whether history may be read unit by unit, so that what a shape declares of whole histories does not hold.

    :param strategy: the strategy's name; ``None`` if it is chosen later, which then asks again.
    """
    if not shape.query(query).has_row_units:
        return False
    return any(kind.reads_units for kind in STRATEGIES) if strategy is None else STRATEGIES.named(strategy).reads_units


def may_add_rows(shape: JobShape, strategy: str | None) -> bool:
    """
    Return whether rows that are only appended may be added to the units of a view, however few at a time.

    Then what a shape declares of its visibility and of whole histories does not hold.

    :param strategy: the strategy's name; ``None`` if it is chosen later.
    """
    return shape.adds_rows and strategy is not None and STRATEGIES.named(strategy).reads_splits


def strategy_of(job: Any) -> JobStrategy | None:
    """Return the strategy that a job names, or the only one that can read its upstream; ``None`` if one is chosen."""
    if job.strategy in STRATEGIES:
        return STRATEGIES.named(job.strategy)
    if job.upstreams or not job.upstream.appends_only:
        return None
    suited = shape_of_job(job).strategies
    named = (kind for kind in STRATEGIES if kind.reads_splits and (suited is None or kind.name in suited))
    return next(named, None)


def row_units(settings: Any) -> JobRowUnits | None:
    """
    Return how the unit of each row of a job is found, if its strategy reads history unit by unit; otherwise ``None``.

    :param settings: the job's settings.
    """
    shape, query = SHAPES.named(settings.shape), settings.job["query"]
    return shape.query(query).row_units(settings) if may_read_units(shape, query, settings.strategy) else None
