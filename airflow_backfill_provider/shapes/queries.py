"""What a shape makes of a query's text: the columns that it uses, its SQL over a relation, its units."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.job.definition_change import ChangeKind, DefinitionChange
from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.core.scan.keys import KeyOrder

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.settings import JobSettings
    from airflow_backfill_provider.spark.row_units import RowUnits

OF_ROWS = frozenset(
    {
        *("CTERelationDef", "CTERelationRef", "Filter", "PipeOperator", "Project", "WithCTE"),
        # Hints
        *("RebalancePartitions", "Repartition", "RepartitionByExpression", "ResolvedHint"),
    }
)
"""Nodes of a plan that make at most one row of one row, and know no other row."""

SUBQUERY = "Subquery"
"""Stands for the plans of EXISTS (…) and IN (…) in a condition of WHERE, which are no nodes of the plan around it."""

SUBQUERY_IN_VALUES = "SubqueryInValues"
"""Stands for the plans of subqueries in conditions and in values, such as ``(SELECT max(x) FROM t)`` after SELECT."""

OF_ONE_RELATION = OF_ROWS | {"Aggregate", "Deduplicate", "Distinct", "Sort", "Window"}
"""Nodes of a plan that make rows of the rows of one relation."""

OF_SEVERAL_READINGS = OF_ONE_RELATION | {"Except", "Expand", "Generate", "Intersect", "Join", "Union"}
"""Nodes of a plan that may read the upstream several times, and combine its rows in any way."""


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """
    The origin of a column of the view.

    :param inputs: the upstream's columns from which it is computed; of several upstreams, each after the upstream's
        name and a dot.
    :param unchanged: whether it is one of them, unchanged.
    """

    inputs: tuple[str, ...]
    unchanged: bool


@dataclass(frozen=True, slots=True)
class QueryLineage:
    """
    The origins of the view's columns.

    :param columns: column of the view → its origin.
    :param filtered_by: the upstream's columns that decide which rows the view has, likewise.
    """

    columns: Mapping[str, ColumnOrigin]
    filtered_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Units:
    """
    The columns that identify the units of a view, for comparing the view with its query.

    :param order: the columns that identify a unit, with their types: the upstream's, or the view's as the settings pin
        them (:attr:`Shape.pins_columns`). These must be types of keys; refuse others in :meth:`ViewWriter.check`.
    :param outputs: the view's columns that hold these, hidden or not.
    :param hashed: the upstream's columns from which a unit's vnode is computed; ``None`` if it is computed from
        ``outputs``, because the upstream has no such columns. A view without ``outputs`` has one unit, in vnode 0.
    :param hashed_outputs: the view's columns that hold these; empty if ``hashed`` is ``None``.
    """

    order: KeyOrder
    outputs: tuple[str, ...]
    hashed: tuple[str, ...] | None
    hashed_outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """
    How a finished view is kept up to date, in words for the dry run.

    :param technique: the name of the technique.
    :param reason: why it is used.
    :param reads: what an epoch with changes reads.
    :param reads_appended: what it reads of an upstream to which rows are only appended, if that is less.
    :param writes: what it writes.
    :param reads_all: whether it reads all rows of the upstream.
    :param cost: the name of its cost in :mod:`~airflow_backfill_provider.core.refresh_cost`; empty for a whole view.
    """

    technique: str
    reason: str
    reads: str
    writes: str
    reads_appended: str = ""
    reads_all: bool = True
    cost: str = ""


class ShapedQuery(ABC):
    """A query that a shape has parsed; pure, and the same for the same text."""

    text: str
    """The query as the user wrote it, without comments."""

    plan_nodes: ClassVar[Collection[str]] = OF_ONE_RELATION
    """
    The names of the nodes that Spark's analysed plan of the query may have.

    Before a query runs, its plan is compared with these. In any case, it reads only the upstream; and once, unless
    these include nodes over several relations.
    """

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of the upstreams that it reads, as it writes each first; the first one leads."""
        return (RELATION,)

    @property
    def leads(self) -> tuple[str, ...]:
        """
        The upstreams whose history is read in chunks, each once.

        By default that is the one that leads. Of a union, each of those that lead a branch does.
        """
        return self.relations[:1]

    @property
    def has_steps(self) -> bool:
        """Whether the query may rename columns in subqueries."""
        return False

    def with_state(self, columns: Mapping[str, str]) -> ShapedQuery:
        """
        Return the query with hidden columns that keep the state of units, as the job's settings pin them.

        :param columns: name → SQL over the rows of a unit; none for most shapes; see :meth:`ViewWriter.state`.
        """
        del columns
        return self

    def upkeep(self, *, created: bool) -> Upkeep | None:
        """
        Return how a finished view is kept up to date; by default nothing is told: each changed row is merged.

        :param created: whether the job was created, so that the technique is chosen.
        """
        del created
        return None

    def upkeep_with_former_rows(self) -> Upkeep | None:
        """Return the same of a view that keeps former rows; by default it is kept up to date as any other."""
        return self.upkeep(created=True)

    def difference_to(self, other: ShapedQuery) -> DefinitionChange:
        """
        Return how another query of the same shape differs, which says other words; by default nothing is known of it.

        Then the units of the whole view are compared with what the other query gives.
        """
        del other
        return DefinitionChange(kind=ChangeKind.EXPRESSIONS, reason="another query")

    @property
    def has_row_units(self) -> bool:
        """
        Whether units are groups of rows, and each row tells its unit, so that a strategy can read whole units.

        Needs :attr:`Shape.pins_columns`, because positions have the types of units. By default not.
        """
        return False

    @abstractmethod
    def columns_of(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return the upstream's columns that the query may use, in the upstream's order."""

    def old_columns(self, available: Sequence[str]) -> tuple[str, ...] | None:
        """
        Return the columns of which the writer needs the values before a change; by default it needs no old row.

        A group loses a row whose group changes, so its shape needs the group's columns. Creation refuses an upstream
        whose changes lack them (:attr:`Source.old_columns`). The writer gets them with :meth:`WriterContext.old`.

        :param available: the upstream's columns.
        :returns: no column if only whether there was a row is needed; ``None`` if not even that.
        """
        del available
        return None

    def require_names(self, available: Sequence[str]) -> None:  # noqa: B027 - most refuse nothing
        """
        Refuse a name that is no column and that Spark would not report, because it reads it as something else.

        Other names of missing columns need not be refused: Spark refuses them when it analyses the query.

        :param available: the upstream's columns.
        :raises InvalidJobError: with the name.
        """

    @abstractmethod
    def render(self, relation: str, key: Sequence[str], upstream_names: Collection[str]) -> str:
        """
        Return the SQL of the view's rows over another relation; the user's text is kept.

        :param relation: name of the relation to read instead of ``upstream``.
        :param key: the upstream's key columns.
        :param upstream_names: the names that a star may stand for.
        """

    @abstractmethod
    def units(self, settings: JobSettings, *, by_key: bool) -> Units:
        """
        Return the columns that identify the view's units.

        :param by_key: whether a unit's vnode is computed from its key, because the view does not hold the distribution
            key; see :meth:`holds_distribution_key`.
        """

    @abstractmethod
    def holds_distribution_key(self, settings: JobSettings) -> bool:
        """
        Return whether the view holds the columns from which a unit's vnode is computed.

        A group has no vnode of the upstream: return ``True``, and let :meth:`units` hash its columns.
        """

    def unit_columns(self, available: Sequence[str]) -> tuple[str, ...]:
        """
        Return the upstream's columns whose values identify a unit; none, the default, if expressions do.

        :param available: the upstream's columns.
        """
        del available
        return ()

    def decided_by_unit(self, wanted: Collection[str], key: Sequence[str], available: Sequence[str]) -> Collection[str]:
        """
        Return those of some columns of the view that may be the same as long as their unit exists, as the text shows.

        :param wanted: the columns of the view.
        :param key: the upstream's key columns.
        :param available: the upstream's columns.
        """
        unit = set(self.unit_columns(available)) or set(key)
        origins = {name.lower(): origin for name, origin in self.lineage(available, key, available).columns.items()}
        known = {name: origins[name.lower()].inputs for name in wanted if name.lower() in origins}
        return [name for name in wanted if name not in known or unit.issuperset(known[name])]

    def row_units(self, settings: JobSettings) -> RowUnits | None:
        """
        Return how the unit of each row is found; ``None``, the default, if :attr:`has_row_units` is false.

        A job that is only planned has no pinned columns, so its units have no order.
        """
        del settings
        return None

    def inexact(self, columns: Sequence[str]) -> frozenset[str]:
        """
        Return the view's columns that floating-point aggregates may compute; by default none.

        Such a value depends on the order of the rows, so two runs of the query may differ in its last digits. A
        verification takes values for equal that differ by no more than that.

        :param columns: the view's columns with floating-point numbers.
        """
        del columns
        return frozenset()

    def lineage(self, columns: Sequence[str], key: Sequence[str], upstream_names: Collection[str]) -> QueryLineage:
        """
        Return the origins of the view's columns; by default none is known.

        :param columns: the upstream's columns.
        :param key: the upstream's key columns.
        :param upstream_names: the names that a star may stand for.
        """
        del columns, key, upstream_names
        return QueryLineage({}, ())
