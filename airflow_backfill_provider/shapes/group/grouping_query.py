"""What queries of groups have in common, whether they group rows of one upstream or of joined ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Self

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.refresh_cost import SLICE, WINDOWS
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.shapes import queries
from airflow_backfill_provider.shapes.functions import AGGREGATES
from airflow_backfill_provider.shapes.group.fold.items import without_types
from airflow_backfill_provider.shapes.group.fold.reasons import NotFolded
from airflow_backfill_provider.shapes.group.steps import Step
from airflow_backfill_provider.shapes.group.units import Units, common_terms
from airflow_backfill_provider.shapes.group.upkeep import FOLDED, MAYBE_FOLDED, sliced


class Technique(StrEnum):
    """How a view of groups is kept up to date."""

    SLICE = "slice"
    """The touched units are computed anew from their rows."""

    FOLD = "fold"
    """The changes are added to the state of the touched units, which hidden columns of the view keep."""


class GroupingQuery(queries.ShapedQuery):
    """A query of groups: a chain of steps, of which one set of expressions divides the rows."""

    steps: tuple[Step, ...]
    """The steps; each one after the first reads the step before it."""

    words: frozenset[str]
    """All words of the query, lower-cased."""

    state: tuple[tuple[str, str], ...]
    """The hidden columns that keep the state of a unit: name and SQL over the unit's rows."""

    @abstractmethod
    def units_with(self, upstream_names: Collection[str]) -> Units:
        """
        Return the query's units.

        :param upstream_names: the names that a star may stand for.
        """

    @abstractmethod
    def with_state(self, columns: Mapping[str, str]) -> Self:
        """Return the query with hidden columns that keep the state of a unit."""

    @property
    def technique(self) -> Technique:
        """How the view is kept up to date: as the job's settings pin it."""
        return Technique.FOLD if self.state else Technique.SLICE

    @property
    def is_global(self) -> bool:
        """Whether the query aggregates all rows, so that its view always has exactly one row."""
        return not common_terms(self.steps)

    @property
    def aggregates(self) -> bool:
        """Whether a row of the view may be computed from values of several rows."""
        return any(step.group is not None for step in self.steps)

    @property
    def why_not_folded(self) -> NotFolded | None:
        """Why the query cannot be folded, as far as its text tells it."""
        return without_types(self.steps, self.units_with(()), self.text)

    def upkeep(self, *, created: bool) -> queries.Upkeep:
        """Return the technique, and its reason as far as the query's text tells it."""
        if self.technique is Technique.FOLD:
            return FOLDED
        reason = self.why_not_folded
        if reason is None and not created:
            return MAYBE_FOLDED
        because = "its types cannot be folded, or the job is older than folds" if reason is None else str(reason)
        return self._sliced(because)

    def upkeep_with_former_rows(self) -> queries.Upkeep:
        """Return that its groups are computed anew."""
        return self._sliced("the view keeps former rows")

    def _sliced(self, because: str) -> queries.Upkeep:
        return sliced(because, is_global=self.is_global, cost=SLICE if self.aggregates else WINDOWS)

    def inexact(self, columns: Collection[str]) -> frozenset[str]:
        """Return all columns with floating-point numbers, if anything is computed from several rows."""
        computes = any(call.name in AGGREGATES for step in self.steps for call in step.calls)
        return frozenset(columns) if computes else frozenset()

    def units(self, settings: JobSettings, *, by_key: bool) -> queries.Units:
        """Return the view's columns that identify a unit; its vnode is computed from them."""
        del by_key
        types = {name.lower(): (name, kind) for name, kind in settings.view_types.items()}
        held = [types[name.lower()] for name in self.units_with(settings.upstream.all_names).outputs]
        order = KeyOrder(tuple(KeyField(name=name, type=kind) for name, kind in held))
        return queries.Units(order=order, outputs=order.names, hashed=None)

    def decided_by_unit(self, wanted: Collection[str], key: Sequence[str], available: Sequence[str]) -> Collection[str]:
        """Return those of some columns of the view that identify a unit."""
        del key
        outputs = {name.lower() for name in self.units_with(available).outputs}
        return [name for name in wanted if name.lower() in outputs]

    def holds_distribution_key(self, settings: JobSettings) -> bool:
        """Return that a unit's vnode is computed from columns of the view."""
        del settings
        return True
