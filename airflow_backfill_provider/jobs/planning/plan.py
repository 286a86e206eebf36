"""The dry run: what creating and running a job would do, before anything is written and without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from deltalake import DeltaTable
from pydantic import BaseModel, ConfigDict, Field

from airflow_backfill_provider.core.clock import utc_now
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream, initial_settings_of
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.rate_limit import RateLimit
from airflow_backfill_provider.core.kinds import further_leads
from airflow_backfill_provider.core.refresh import Refresh
from airflow_backfill_provider.core.refresh_cost import JOIN, break_even
from airflow_backfill_provider.core.scan.file_statistics import mean_row_bytes
from airflow_backfill_provider.core.scan.next_chunk import ChunkPart
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.core.scan.scan import rows_read
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.first_look import look
from airflow_backfill_provider.jobs.look_back import look_at_beginning, require_followed
from airflow_backfill_provider.jobs.planning.largest_unit import FOLDED, SMALLER, unit_warnings
from airflow_backfill_provider.jobs.planning.layout_warnings import layout_warnings
from airflow_backfill_provider.jobs.planning.planned_adoption import PlannedAdoption, planned_adoption
from airflow_backfill_provider.jobs.planning.planned_upstreams import PlannedUpstream, planned_upstreams
from airflow_backfill_provider.jobs.rate import NextLimit, next_limit
from airflow_backfill_provider.jobs.resolution import require_changes_of_all, resolve_upstream
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.shapes import query_of
from airflow_backfill_provider.shapes.several import over_tables
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.base import ChunkInputs
from airflow_backfill_provider.strategies.choice import StrategyChoice, choose_strategy
from airflow_backfill_provider.strategies.cost import CostEstimate
from airflow_backfill_provider.strategies.in_place_chunk import next_chunk
from airflow_backfill_provider.strategies.inputs import epochs_of, further_blocks


class BackfillPlan(BaseModel):
    """
    The plan of a backfill.

    :param created: whether the job exists; if it does, the plan covers only what is left.
    :param reason: why this strategy was chosen.
    :param estimates: strategy → the cost of the whole backfill under it.
    :param offset_name: what an offset of the upstream is called, such as ``version``.
    :param newer_offsets: how many offsets there are since the one that the view keeps former rows since; ``None`` if it
        keeps none, or since the job's creation.
    :param rows: the upstream's rows, from the log's statistics.
    :param rows_left: the rows that are not read yet.
    :param bytes: the size of the upstream's data files, all columns.
    :param epochs: the number of epochs that read the rest; ``None`` while the job is paused.
    :param rate_limit: the rate limit in the settings.
    :param effective_rate_limit: the rate limit of the next epoch, in rows; ``None`` is unlimited.
    :param rate_limit_reason: why the next epoch has this limit; empty if it is that in the settings.
    :param parallelism: the number of task runs that share an epoch.
    :param last_epochs: what epochs do after all rows are read, before the view is finished; empty if nothing.
    :param technique: how a finished view of groups is kept up to date, or one that is computed whole; empty for others.
    :param technique_reason: why.
    :param refresh: what an epoch with changes computes, as the job asks.
    :param break_even: from how many changed rows on computing the whole view costs less; 0 if it always does.
    :param cost: the name of the cost from which that follows.
    :param refresh_reads: what an epoch with changes reads of a finished view's upstream.
    :param refresh_rows: how many rows of the upstream it reads again; ``None`` if only those of some groups.
    :param refresh_writes: what it writes.
    :param largest_unit: how many rows of the upstream the largest unit of a view of groups has, before the query's
        filter; ``None`` if it was not counted, because units are expressions or the upstream is large.
    :param first_epoch_files: the data files that the next epoch reads; 0 while the arrangement does not exist.
    :param adopts: the existing table that creating the job makes the view; ``None`` if there is none.
    :param upstreams: of a job with several, each by its name; the other fields are about those that lead.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    created: bool
    strategy: str
    reason: str
    estimates: dict[str, CostEstimate]
    upstream_version: Offset
    offset_name: str = "version"
    newer_offsets: Annotated[int | None, Field(exclude_if=lambda found: found is None)] = None
    files: int
    rows: int
    rows_left: int
    bytes: int
    rate_limit: RateLimit
    effective_rate_limit: int | None
    rate_limit_reason: str
    parallelism: int
    epochs: int | None
    last_epochs: str = ""
    technique: str = ""
    technique_reason: str = ""
    refresh: Refresh = Refresh.INCREMENTAL
    break_even: int | None = None
    cost: str = ""
    refresh_reads: str = ""
    refresh_rows: int | None = None
    refresh_writes: str = ""
    largest_unit: int | None = None
    first_epoch_files: int
    first_epoch_rows_scanned: int
    first_epoch_bytes: int
    warnings: tuple[str, ...]
    adopts: Annotated[PlannedAdoption | None, Field(exclude_if=lambda found: found is None)] = None
    upstreams: Annotated[dict[str, PlannedUpstream], Field(exclude_if=lambda found: not found)] = {}


def make_plan(backfill: Backfill) -> BackfillPlan:
    """
    Plan the rest of a job.

    :raises BackfillError: if the definition or the upstream cannot be used; an unfinished view is no upstream yet.
    """
    job, upstream = backfill.job, backfill.upstream
    created = backfill.store.created()
    begins_earlier = not created and job.kept_since is not None
    seen = (look_at_beginning if begins_earlier else look)(job, upstream, backfill.storage_options, utc_now)
    described = seen.described
    pinned = resolved = resolve_upstream(job, described, seen.others)
    require_changes_of_all(job, resolved, seen.several)
    if begins_earlier:
        require_followed(job, resolved, described.offset, upstream, backfill.storage_options)
    if created:
        settings = backfill.require_created()
        pinned = settings.upstream
        job = job.model_copy(update=initial_settings_of(settings))
    choice = choose_strategy(job, upstream, described, seen.others)
    adopts = None if created else planned_adoption(backfill)
    outlook = _of_created(backfill, described) if created else _of_new(backfill, described, resolved, choice, adopts)
    leads = {name: seen.others[name] for name in further_leads(job)}
    files = [*upstream.blocks(described.offset, described.key_order(job.upstream.key)), *further_blocks(job, leads)]
    rows = sum(file.row_count for file in files)
    rows_left = 0 if outlook.completed else max(outlook.rows - outlook.rows_read, 0)
    upkeep = _upkeep(job, outlook, created=created)
    query = over_tables(query_of(job), job, resolved)
    largest_unit = upstream.largest_group(described.offset, query.unit_columns(list(described.types)))
    return BackfillPlan(
        name=job.name,
        created=created,
        adopts=adopts,
        upstreams=planned_upstreams(job, seen, query, pinned, upkeep.get("cost", JOIN)),
        strategy=outlook.strategy,
        reason=choice.reason if outlook.strategy == choice.strategy.name else "chosen when the job was created",
        estimates=dict(choice.estimates),
        upstream_version=described.offset,
        offset_name=job.upstream.offset_name,
        newer_offsets=upstream.latest().distance_from(described.offset) if begins_earlier else None,
        files=len(files),
        rows=rows,
        rows_left=rows_left,
        bytes=sum(file.size for file in files),
        rate_limit=outlook.rate_limit,
        effective_rate_limit=outlook.limit.rows,
        rate_limit_reason=outlook.limit.chosen.reason,
        parallelism=outlook.parallelism,
        epochs=0
        if outlook.completed
        else epochs_of(rows_left, job.rate, first=outlook.limit.rows, row_bytes=mean_row_bytes(files))
        if outlook.reads
        else None,
        last_epochs=outlook.last_epochs,
        **upkeep,
        largest_unit=largest_unit,
        first_epoch_files=sum(part.scanned_files for part in outlook.parts),
        first_epoch_rows_scanned=sum(part.scanned_rows for part in outlook.parts),
        first_epoch_bytes=sum(part.scanned_bytes for part in outlook.parts),
        warnings=(
            *outlook.warnings,
            *unit_warnings(
                largest_unit,
                rows,
                remedy="" if upkeep.get("refresh_rows") is None else SMALLER if job.keep.keeps_former_rows else FOLDED,
                reads_units=KINDS.named(outlook.strategy).reads_units,
            ),
            *layout_warnings(job, query, list(described.types), rows),
            *(() if created else [f"create is refused: {missing}" for missing in upstream.missing_rights()]),
            *(() if created or job.adopts_in_place else _view_warnings(backfill)),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outlook:
    """
    The strategy of a job, and what the next epoch would read.

    :param rows: all rows that the job has to read.
    :param last_epochs: what epochs do afterwards, before the view is finished.
    :param state_columns: the view's hidden columns that keep the state of units.
    """

    strategy: str
    rate_limit: RateLimit
    limit: NextLimit
    parallelism: int
    reads: bool
    completed: bool
    rows: int
    rows_read: int
    parts: Sequence[ChunkPart]
    last_epochs: str
    state_columns: Mapping[str, str]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The planner's warnings."""
        return tuple(warning for part in self.parts for warning in part.warnings)


def _of_created(backfill: Backfill, described: UpstreamDescription) -> _Outlook:
    settings = backfill.require_created()
    described.require_as_created(settings.upstream)
    if settings.needs_changes:
        described.require_changes()
    previous = backfill.store.newest_barrier(settings)
    return _outlook(backfill, settings, backfill.store.state(), described, previous)


def _of_new(
    backfill: Backfill,
    described: UpstreamDescription,
    resolved: ResolvedUpstream,
    choice: StrategyChoice,
    adopts: PlannedAdoption | None,
) -> _Outlook:
    settings = creation.new_settings(
        backfill.job,
        choice.strategy,
        described,
        resolved,
        start=choice.strategy.planned_start(backfill.job.name, backfill.upstream, described),
        requested_by="",
        requested_at=utc_now(),
    )
    if adopts is not None:
        settings = settings.model_copy(update={"first_rows": adopts.first_rows})
    return _outlook(backfill, settings, settings.initial_state, described, None)


def _outlook(
    backfill: Backfill,
    settings: JobSettings,
    state: BackfillState,
    described: UpstreamDescription,
    previous: Barrier | None,
) -> _Outlook:
    limit = next_limit(
        settings,
        previous,
        described.offset,
        store=backfill.store,
        upstream=backfill.upstream,
        completed=state.completed,
        changes=_changes_since(backfill, previous),
    )
    plan = next_chunk(
        ChunkInputs(
            settings=settings,
            rate_limit=limit.rows,
            state=state,
            upstream=backfill.upstream,
            kept_up_to=previous.kept_up_to_after if previous else settings.first_offset,
            offset=described.offset,
            newest=described.offset,
            previous=previous,
            storage_options=backfill.storage_options,
        )
    )
    strategy = KINDS.named(settings.strategy)
    reached = previous.upstream.to_offset if previous else settings.first_window_after
    replay = strategy.replay(state, previous, described.offset.distance_from(reached))
    return _Outlook(
        strategy=settings.strategy,
        rate_limit=settings.rate_limit,
        limit=limit,
        parallelism=settings.parallelism,
        reads=settings.reads_snapshot,
        completed=state.completed,
        rows=plan.row_count,
        rows_read=rows_read(settings.scan, state),
        parts=plan.parts,
        state_columns=settings.state_columns,
        last_epochs="" if state.completed else strategy.last_epochs(replay),
    )


def _upkeep(job: BackfillJob, outlook: _Outlook, *, created: bool) -> dict[str, Any]:
    """Return the fields of a plan that say how the finished view is kept up to date."""
    query, keeps = query_of(job).with_state(outlook.state_columns), job.keep.keeps_former_rows
    found = query.upkeep_with_former_rows() if keeps else query.upkeep(created=created)
    if found is None:
        return {}
    is_appended = job.upstream.appends_only
    # Rows that are only appended may be gone later, so such a view is never computed whole.
    cost = "" if is_appended else found.cost
    return {
        "technique": found.technique,
        "technique_reason": found.reason,
        "refresh": job.refresh,
        # Nor is one that keeps former rows.
        "break_even": break_even(cost, outlook.rows) if cost and not keeps else None,
        "cost": cost,
        "refresh_reads": (found.reads_appended if is_appended else "") or found.reads,
        "refresh_rows": outlook.rows if found.reads_all else None,
        "refresh_writes": found.writes,
    }


def _changes_since(backfill: Backfill, previous: Barrier | None) -> list[JobSettings]:
    """Return the settings' records that no barrier has yet; none if no barrier is pinned."""
    if previous is None:
        return []
    history = backfill.store.settings_history()
    return [record for record in history if record.sequence > previous.settings_sequence]


def _view_warnings(backfill: Backfill) -> list[str]:
    view = backfill.job.view_location
    if not view:
        return []
    if not DeltaTable.is_deltatable(view, storage_options=options_of(view, backfill.storage_options)):
        return []
    return [f"there is already a table at {view}; create refuses it if it does not belong to this job"]
