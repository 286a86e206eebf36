"""
Change the query of a finished view: say what that costs, check the new definition, and record it.

The record takes effect with the next barrier, like every change of the settings. That epoch writes what differs between
the two queries together with its changes, in one commit (I7). Until then, the view is that of the former query. So
after a crash at any point, the view is that of the one or of the other.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.engine import Engine
from airflow_backfill_provider.core.epoch.settings import (
    JobSettings,
    OtherUpstream,
    ResolvedUpstream,
    SettingsChange,
    ViewColumn,
)
from airflow_backfill_provider.core.errors import InvalidJobError, NotFinishedError
from airflow_backfill_provider.core.job.cut_over import ProposedDefinition
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.definition_change import ChangeKind, ColumnsChange, DefinitionChange
from airflow_backfill_provider.core.status.change_text import WAITS_FIRST, change_lines
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.changed_columns import (
    REBUILD,
    changed_in_upstreams,
    columns_change,
    require_other_columns,
)
from airflow_backfill_provider.jobs.first_look import FirstLook, look
from airflow_backfill_provider.jobs.mutations import require_not_cancelled
from airflow_backfill_provider.jobs.resolution import require_changes_of_all, resolve_upstream
from airflow_backfill_provider.lake.tables.view_table import view_table
from airflow_backfill_provider.shapes.changed_definition import change_of
from airflow_backfill_provider.shapes.query_text import read_query
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.state.store import BackfillStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """
    A change of a job's definition, before it is made.

    :param job: the new definition.
    :param settings: the settings in force.
    :param held: the same with the definition that the view has, or has once a pinned epoch is committed.
    :param change: how the new definition differs from that.
    :param rows: the upstream's rows, from the log's statistics.
    :param upstream_changes: how the columns that the definition in force uses have changed in the upstreams, so that no
        epoch can read them.
    :param came: the columns that came to the upstreams, that the query's stars follow, and that the definition in force
        does not have yet.
    """

    job: BackfillJob
    settings: JobSettings
    held: JobSettings
    change: DefinitionChange
    rows: int
    upstream_changes: tuple[str, ...] = ()
    came: tuple[str, ...] = ()

    @property
    def is_in_force(self) -> bool:
        """Whether the new definition is in force already."""
        stays = not self.upstream_changes and not self.came
        return stays and self.job.definition() == self.settings.definition.definition()

    @property
    def is_known(self) -> bool:
        """Whether there is nothing to do: the new definition is in force, or waits for an approval already."""
        waits = self.settings.proposed
        if waits is None:
            return self.is_in_force
        return self.job.definition() == BackfillJob(**waits.fields["job"]).definition()

    @property
    def needs_approval(self) -> bool:
        """Whether the change waits for an approval, because it may change rows."""
        return self.job.waits_for_approval and not self.change.kind.keeps_rows

    @property
    def lines(self) -> tuple[str, ...]:
        """The class of the change, its reason, and its cost, in words."""
        why = self.why_impossible()
        waits = [WAITS_FIRST] if self.needs_approval and not why else []
        return (*change_lines(self.change.kind, self.change.reason, why, self.rows), *waits)

    def why_impossible(self) -> str:
        """Return why only a rebuild can make this change; empty if it is possible."""
        change, held = self.change, self.held.definition
        if change.kind.needs_rebuild:
            return change.reason
        if change.kind.keeps_rows:
            return ""
        if any(not upstream.keeps_all_columns for upstream in held.all_upstreams.values()):
            return (
                "an upstream is no Delta table with change data feed, so its rows may be kept for the former query only"
            )
        if held.keep_arrangement:
            return "the job keeps its arrangement, which has the columns of the former query only"
        return ""

    def columns_to(self, latter: JobSettings, store: BackfillStore) -> ColumnsChange | None:
        """
        Return how the view's columns change, as Spark found them; ``None`` if they stay.

        :param latter: the settings with the new definition.
        """
        table = view_table(self.settings.definition.view_location, store.storage_options)
        return None if table is None or not latter.view_columns else columns_change(self.held, latter, table)

    def require_possible(self) -> None:
        """
        Refuse a change that only a rebuild can make.

        :raises InvalidJobError: with the reason.
        """
        if why := self.why_impossible():
            raise InvalidJobError(f"job {self.job.name}: {why}; {REBUILD}")


def propose_change(
    job: BackfillJob, *, store: BackfillStore, upstream: Source, clock: Clock = utc_now
) -> ProposedChange:
    """
    Return how a definition differs from the one that a job's view has. This starts no Spark, and writes nothing.

    :raises InvalidJobError: if it is another job, or its view is another one, or a rebuild grows beside the view.
    :raises NotFinishedError: if the view is not finished.
    :raises JobCancelledError: if the job was cancelled.
    """
    settings, held = store.settings(), store.settings_of_view()
    job = job.placed_like(settings.definition)
    creation.require_same_job(job, settings, store)
    _require_served(settings)
    change = change_of(held.definition, job)
    unread: tuple[str, ...] = ()
    came: tuple[str, ...] = ()
    if change.kind.keeps_rows:
        problems = unread = changed_in_upstreams(settings, upstream, store.storage_options)
        if held != settings:
            problems = changed_in_upstreams(held, upstream, store.storage_options)
        if problems:
            reason = f"the query's columns have changed in the upstream: {'; '.join(problems)}"
            change = DefinitionChange(kind=ChangeKind.EXPRESSIONS, reason=reason)
        elif job.follows_stars:
            seen = look(job, upstream, store.storage_options, clock)
            came = _followed(seen, settings)
            if followed := _followed(seen, held):
                reason = f"the query's star follows what came to the upstream: {', '.join(followed)}"
                change = DefinitionChange(kind=ChangeKind.COLUMNS_ADDED, reason=reason)
    return ProposedChange(
        job=job,
        settings=settings,
        held=held,
        change=change,
        rows=upstream.row_count(upstream.latest()),
        upstream_changes=unread,
        came=came,
    )


def change_query(
    job: BackfillJob,
    *,
    store: BackfillStore,
    upstream: Source,
    engine: Callable[[], Engine],
    requested_by: str,
    clock: Clock = utc_now,
) -> JobSettings:
    """
    Make a changed definition a job's own; the next epoch writes what differs to the view.

    With ``cut_over: on_approval`` it waits for an approval first, unless it changes no rows. Does nothing if it is in
    force already, or waits.

    :param engine: makes the engine when it is needed; starting Spark takes seconds.
    :returns: the settings in force.
    :raises InvalidJobError: if the definition is wrong, or only a rebuild can make this change.
    :raises ConcurrentUpdateError: if the settings changed meanwhile.
    :raises BackfillError: as :func:`propose_change`.
    """
    proposed = propose_change(job, store=store, upstream=upstream, clock=clock)
    return make_change(proposed, store=store, upstream=upstream, engine=engine, requested_by=requested_by, clock=clock)


def make_change(
    proposed: ProposedChange,
    *,
    store: BackfillStore,
    upstream: Source,
    engine: Callable[[], Engine],
    requested_by: str,
    clock: Clock = utc_now,
) -> JobSettings:
    """
    Do what :func:`change_query` does, with a change that was just proposed.

    :raises BackfillError: as :func:`change_query`.
    """
    if proposed.is_known:
        return proposed.settings
    if proposed.is_in_force:
        return _withdraw(proposed, store=store, requested_by=requested_by, now=clock())
    proposed.require_possible()
    if proposed.change.kind.keeps_rows:
        upstreams, columns = proposed.held.upstream, proposed.held.view_columns
    else:
        upstreams, columns = _checked(proposed, store=store, upstream=upstream, engine=engine, clock=clock)

    latter: dict[str, Any] = {
        "job": proposed.job.model_dump(mode="json"),
        "strategy": proposed.held.strategy,
        "shape": proposed.held.shape,
        "upstream": upstreams,
        "view_columns": columns,
    }

    def change(settings: JobSettings) -> JobSettings:
        settings.require_unchanged(proposed.settings)
        asked: dict[str, Any] = {"requested_by": requested_by, "requested_at": clock()}
        if not proposed.needs_approval:
            return settings.changed(SettingsChange.CHANGE, **asked, **latter, proposed=None)
        fields = {
            **latter,
            "upstream": upstreams.model_dump(mode="json"),
            "view_columns": [column.model_dump(mode="json") for column in columns],
        }
        waits = ProposedDefinition(
            sequence=settings.sequence + 1,
            fields=fields,
            proposed_by=requested_by,
            proposed_at=asked["requested_at"],
        )
        return settings.changed(SettingsChange.PROPOSE_CHANGE, **asked, proposed=waits)

    return store.change_settings(change)


def _withdraw(proposed: ProposedChange, *, store: BackfillStore, requested_by: str, now: dt.datetime) -> JobSettings:
    """Give up a change that waits for an approval, because the definition in force is the one that is wanted."""

    def change(settings: JobSettings) -> JobSettings:
        settings.require_unchanged(proposed.settings)
        return settings.changed(
            SettingsChange.GIVE_UP_CUT_OVER, requested_by=requested_by, requested_at=now, proposed=None
        )

    return store.change_settings(change)


def may_change(settings: JobSettings) -> bool:
    """Return whether a job's query may be changed: the view is finished and serves, and no rebuild grows beside it."""
    return settings.finished_epoch is not None and not settings.cancelled and settings.successor is None


def _require_served(settings: JobSettings) -> None:
    name = settings.job["name"]
    require_not_cancelled(settings)
    if settings.successor is not None:
        raise InvalidJobError(
            f"job {name}: a rebuild grows beside its view; let it take the view's place, or give it up with revert"
        )
    if settings.finished_epoch is None:
        raise NotFinishedError(
            f"the view of job {name} is not finished, so most of its rows are still to be read; finish it first, or "
            "rebuild the job with the new query"
        )


def _checked(
    proposed: ProposedChange, *, store: BackfillStore, upstream: Source, engine: Callable[[], Engine], clock: Clock
) -> tuple[ResolvedUpstream, tuple[ViewColumn, ...]]:
    """
    Check a new query as creating a job would, and that the view's table can get its columns.

    :returns: the columns that it uses, and those that it gives.
    """
    job, held = proposed.job, proposed.held
    seen = look(job, upstream, store.storage_options, clock)
    if not job.follows_stars:
        seen = _without_new_columns(seen, job, held)
    described = seen.described
    found = resolve_upstream(job, described, seen.others)
    found = found.model_copy(update={"others": _continued(found.others, held.others)})
    _require_same_tables(seen, held)
    require_changes_of_all(job, found, seen.several)
    made = engine()
    made.check(job, found, described.offset, held.strategy, store.incarnations())
    columns = made.view_columns(job, found)
    latter = held.model_copy(update={"job": job.model_dump(mode="json"), "upstream": found, "view_columns": columns})
    _require_possible_columns(held, latter, store)
    return found, columns


def _require_possible_columns(held: JobSettings, latter: JobSettings, store: BackfillStore) -> None:
    """
    Refuse a query that gives columns which the view's table cannot get.

    :param held: the settings with the definition that the view has, or has once a pinned epoch is committed.
    :param latter: those with the definition that it gets.
    :raises InvalidJobError: with the column.
    """
    if latter.position_order != held.position_order:
        raise InvalidJobError(
            f"query: the columns that identify what the job reads would have other types, and its state has positions "
            f"of the former ones; {REBUILD}"
        )
    table = view_table(held.definition.view_location, store.storage_options)
    if table is not None and (change := columns_change(held, latter, table)) is not None:
        require_other_columns(held, latter, change, table)


def _followed(seen: FirstLook, held: JobSettings) -> tuple[str, ...]:
    """Return the columns that came to the upstreams, with the names of several, and that the query's stars follow."""
    came, names = _new_columns(seen, held), bool(held.definition.upstreams)
    return tuple(f"{name}.{new}" if names else new for name, columns in came.items() for new in sorted(columns))


def _new_columns(seen: FirstLook, held: JobSettings) -> dict[str, frozenset[str]]:
    """Return the columns that the former query's stars would stand for by now, and did not then, by upstream."""
    now = resolve_upstream(held.definition, seen.described, seen.others)
    pairs = {held.definition.lead_name: (now, held.upstream)}
    pairs |= {name: (now.others[name], held.others[name]) for name in seen.others}
    return {name: frozenset(used.types) - frozenset(then.types) for name, (used, then) in pairs.items()}


def _without_new_columns(seen: FirstLook, job: BackfillJob, held: JobSettings) -> FirstLook:
    """
    Return upstreams without the columns that the former query's stars would stand for by now, and did not then.

    A star keeps its meaning, unless the new query names such a column.
    """
    try:
        came = _new_columns(seen, held)
    except InvalidJobError:
        # The former query no longer fits the upstream, so what its stars stand for does not matter.
        return seen
    named = {token.text.lower() for token in read_query(job.query).tokens}

    def kept(described: UpstreamDescription, name: str) -> UpstreamDescription:
        left_out = {column for column in came[name] if column.lower() not in named}
        return replace(described, types={name: kind for name, kind in described.types.items() if name not in left_out})

    several = {name: replace(found, described=kept(found.described, name)) for name, found in seen.others.items()}
    lead = kept(seen.described, held.definition.lead_name)
    first = {name: replace(found, described=lead) for name, found in list(seen.several.items())[:1]}
    return FirstLook(described=lead, several={**first, **several})


def _continued(found: Mapping[str, OtherUpstream], held: Mapping[str, OtherUpstream]) -> dict[str, OtherUpstream]:
    """Return the upstreams beside the lead with the points that their histories began at."""
    return {
        name: other.model_copy(update={"point": held[name].point, "compared": held[name].compared})
        for name, other in found.items()
    }


def _require_same_tables(seen: FirstLook, held: JobSettings) -> None:
    seen.described.require_same_table(held.upstream)
    for name, other in seen.others.items():
        other.described.require_same_table(held.others[name])
