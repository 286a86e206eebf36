"""
One job with its tables, for the command line, the operators and the Spark applications.

Opening a job reads nothing; every method reads the current state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.failures import EpochFailure
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import BackfillError, InvalidJobError, JobNotCreatedError
from airflow_backfill_provider.core.job.cut_over import CutOverKind
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.core.status.chain import (
    NO_CHAIN,
    BehindRoot,
    ChainedJob,
    HeldUpstream,
    UpstreamChain,
    furthest,
)
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.core.status.cut_over import CutOverStatus
from airflow_backfill_provider.core.status.job_condition import JobCondition
from airflow_backfill_provider.core.status.job_status import JobStatus, JobSummary, job_status, job_summary
from airflow_backfill_provider.core.status.speed import RECENT_EPOCHS
from airflow_backfill_provider.core.status.verified_state import VerifiedState
from airflow_backfill_provider.core.status.watchdog import read_up_to
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.chain import MOST_JOBS, chain_of, require_finished
from airflow_backfill_provider.jobs.chain_frontier import lacked_since
from airflow_backfill_provider.jobs.change_feeds import ChangeFeeds
from airflow_backfill_provider.jobs.cut_over import cut_over_status
from airflow_backfill_provider.jobs.diamonds import held_upstreams
from airflow_backfill_provider.lake.store.allowed_roots import require_allowed, require_location_allowed
from airflow_backfill_provider.lake.store.real_folders import require_apart
from airflow_backfill_provider.lake.tables.lost_view import why_view_is_lost
from airflow_backfill_provider.sources import Source, open_source
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.state.verifications import Verifications


@dataclass(frozen=True)
class Backfill:
    """
    A job, its control tables and its upstream.

    :param job: the definition.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    job: BackfillJob
    storage_options: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """
        Refuse a job without a folder for control tables, or with tables in a location that is not allowed.

        :raises InvalidJobError: if no folder is given, and the view has no location beside which there is a default; or
            if a folder lies in another one through a symbolic link.
        :raises LocationNotAllowedError: as :func:`~airflow_backfill_provider.lake.store.allowed_roots.require_allowed`.
        """
        if not self.job.state:
            raise InvalidJobError(
                f"state: is required, because {self.job.view_name} is a name in a catalog, so no folder of the view is "
                "known to put the control tables beside; give a folder, or give view_path"
            )
        require_allowed(self.job)
        require_apart(self.job)

    @classmethod
    def at(cls, state: str, storage_options: Mapping[str, str] | None = None) -> Backfill:
        """
        Open a created job by the location of its control tables alone.

        :raises JobNotCreatedError: if there is none.
        :raises LocationNotAllowedError: if their location is not allowed.
        """
        require_location_allowed("state", state)
        settings = BackfillStore(state, storage_options).settings()
        return cls(BackfillJob(**settings.job), storage_options)

    @cached_property
    def store(self) -> BackfillStore:
        """The job's control tables."""
        return BackfillStore(self.job.state, self.storage_options)

    @cached_property
    def verifications(self) -> Verifications:
        """The results of the job's verifications."""
        return self.store.verifications

    @property
    def upstream(self) -> Source:
        """
        The table that the job reads. If the job names it in a catalog, its location is that in the settings.

        :raises JobNotCreatedError: if that location is not known yet.
        """
        if self.job.upstream.is_placed:
            return self._upstream_of_definition
        if not self.store.created():
            raise JobNotCreatedError(
                f"job {self.job.name} names {self.job.upstream.catalog_table} in a catalog, and its location is found "
                "when the job is created; create it first, or give upstream.path, too"
            )
        # A rebuild may find the table of this name at another location, so the source is not kept.
        return open_source(self.store.settings().definition.upstream, self.storage_options)

    @property
    def others(self) -> Mapping[str, Source]:
        """
        The upstreams beside the one that leads, by their names in the query; none for most jobs.

        :raises JobNotCreatedError: as :attr:`upstream`.
        """
        job = self.job if self.job.is_placed or not self.job.others else self.store.settings().definition
        return {name: open_source(found, self.storage_options) for name, found in job.others.items()}

    @cached_property
    def _upstream_of_definition(self) -> Source:
        return open_source(self.job.upstream, self.storage_options)

    @property
    def successor(self) -> Backfill | None:
        """The rebuild that grows beside the job's view, as a job of its own; ``None`` if there is none."""
        return self.successor_by(self.store.settings())

    def successor_by(self, settings: JobSettings) -> Backfill | None:
        """Return the rebuild that grows beside the job's view, by settings that were read already."""
        found = settings.successor
        return None if found is None else Backfill(BackfillJob(**found.growing), self.storage_options)

    def settings(self) -> JobSettings:
        """
        Return the settings in force, even if this definition was edited after the job was created.

        :raises JobNotCreatedError: if it was not created.
        :raises InvalidJobError: if the control tables belong to another job.
        """
        settings = self.store.settings()
        if settings.job["name"] != self.job.name:
            raise InvalidJobError(
                f"state: {self.job.state} holds the control tables of job {settings.job['name']}, not of "
                f"{self.job.name}; give each job its own folder"
            )
        return settings

    def require_ours(self) -> None:
        """
        Refuse control tables of another job, and ones that do not exist. This definition may have been edited.

        :raises BackfillError: as :meth:`settings`.
        """
        self.settings()

    def require_created(self) -> JobSettings:
        """
        Return the settings of a job that was created with exactly this definition.

        :raises JobNotCreatedError: if it was not created.
        :raises InvalidJobError: if it was created with another definition.
        """
        return creation.require_job(self.job, self.store)

    def require_finished_upstream(self) -> None:
        """
        Refuse upstreams of which one is the view of another job and not finished, if their locations are known.

        :raises UpstreamNotFinishedError: with the job and its progress.
        """
        placed = all(upstream.is_placed for upstream in self.job.all_upstreams.values())
        if placed or self.store.created():
            for source in (self.upstream, *self.others.values()):
                require_finished(source.view_at(), self.storage_options)

    def upstream_was_rebuilt(self) -> bool:
        """
        Return whether the job reads another job's view, and that one was rebuilt since this job or its rebuild began.

        :raises JobNotCreatedError: if this job was not created.
        """
        read = {"": self.upstream, **self.others}
        views = {name: source for name, source in read.items() if source.view_at() is not None}
        if not views:
            return False
        growing = self.successor
        newest = self if growing is None or not growing.store.created() else growing
        settings = newest.store.settings()
        created_on = {"": settings.upstream, **settings.others}
        return any(source.at().table_id != created_on[name].table_id for name, source in views.items())

    def status(self, clock: Clock = utc_now) -> JobStatus:
        """
        Describe the job as it is now.

        :raises JobNotCreatedError: if it was not created.
        """
        return self.read().status(clock)

    def read(self) -> ReadBackfill:
        """
        Read the control tables as they are now, and the state of the upstream's change feed.

        :raises JobNotCreatedError: if the job was not created.
        """
        settings = self.store.settings()
        last = self.store.last_epoch()
        # Two more than the speed needs: an uncommitted barrier, and the one before the window.
        barriers, commits = self.store.log(since_epoch=max(last - RECENT_EPOCHS - 2, 0))
        state = self.store.state()
        feeds = ChangeFeeds(
            settings=settings,
            state=state,
            barriers=barriers,
            commits=commits,
            storage_options=self.storage_options,
        )
        feed = feeds.of_lead(lambda: self.upstream)
        others = feeds.of_others()
        return ReadBackfill(
            settings=settings,
            state=state,
            barriers=tuple(barriers),
            commits=tuple(commits),
            failures=tuple(self.store.failures(since_epoch=last)),
            feed=feed,
            other_feeds=others,
            held=self._held(settings, barriers, commits),
            lost_view=self._lost_view(settings, commits),
            rebuild=self._read_rebuild(settings),
            cut_over=cut_over_status(self.store, settings),
            chain=self._chain(feed, read_up_to(settings, barriers, commits)),
            other_chains={
                name: self._chain(found, read_up_to(settings, barriers, commits, name))
                for name, found in others.items()
            },
            **self._read_verifications(settings),
        )

    def _lost_view(self, settings: JobSettings, commits: Sequence[EpochCommit]) -> str:
        """Return why the view is not the one that the last epoch left; empty if it is."""
        ours = [commit for commit in commits if commit.incarnation == settings.incarnation]
        return why_view_is_lost(settings, ours[-1].tables if ours else None, self.storage_options)

    @property
    def chain(self) -> tuple[ChainedJob, ...]:
        """The jobs before this one, if its upstream is a view; none if that cannot be read, which the feed tells."""
        try:
            return chain_of(self.upstream.view_at(), self.storage_options)
        except BackfillError:
            return ()

    def _chain(self, feed: ChangeFeed, read: Offset | None) -> UpstreamChain:
        """
        Return the jobs before this one, whose views lead to an upstream.

        :param read: the offset up to which the job has read the upstream.
        """
        jobs = chain_of(feed.view, self.storage_options)
        return UpstreamChain(jobs=jobs, behind_root=self._behind_root(jobs, feed, read))

    def _behind_root(self, chain: Sequence[ChainedJob], feed: ChangeFeed, read: Offset | None) -> BehindRoot | None:
        """Return how far the view is behind the chain's root; ``None`` if there is no chain, or it is unknown."""
        if feed.view is None or read is None or not chain or not chain[-1].state or len(chain) == MOST_JOBS:
            return None
        try:
            if feed.latest > read and (since := lacked_since(feed.view, read, self.storage_options)) is not None:
                return BehindRoot(since)
            before = Backfill.at(chain[-1].state, self.storage_options).read()
        except BackfillError:
            return None
        return before.behind_roots()

    def _read_rebuild(self, settings: JobSettings) -> ReadBackfill | None:
        """Read the rebuild that grows beside the view, if there is one and its tables are created."""
        successor = self.successor_by(settings)
        return successor.read() if successor is not None and successor.store.created() else None

    def _held(
        self, settings: JobSettings, barriers: Sequence[Barrier], commits: Sequence[EpochCommit]
    ) -> Sequence[HeldUpstream]:
        """Return the upstreams that wait for another job; none if that is unknown, or there is only one."""
        read = {name: read_up_to(settings, barriers, commits, name) for name in settings.others}
        read[settings.definition.lead_name] = read_up_to(settings, barriers, commits)
        since = {name: offset for name, offset in read.items() if offset is not None}
        if not settings.others or len(since) < len(read):
            return ()
        definitions = settings.definition.all_upstreams
        sources = {name: open_source(definitions[name], self.storage_options) for name in since}
        with suppress(BackfillError):
            return held_upstreams(sources, since, utc_now(), self.storage_options)
        return ()

    def _read_verifications(self, settings: JobSettings) -> dict[str, Any]:
        """Read the results of verifications; if that fails, return the reason, so that the rest is still shown."""
        try:
            verified = self.verifications.newest_finished(settings.incarnation)
            waits = self.verifications.waiting(settings.incarnation) is not None
        except BackfillError as error:
            return {"verification_problem": str(error)}
        return {
            "verified": None if verified is None else VerifiedState.of(verified),
            "verification_waits": waits,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBackfill:
    """
    The contents of a job's tables at one moment.

    :param barriers: the newest barriers, ascending.
    :param commits: their commits.
    :param failures: the recorded failures of the newest barrier.
    :param feed: how long the changes that they have not read are kept.
    :param other_feeds: the same of the upstreams beside the one that leads, by their names.
    :param held: the upstreams that wait until another job's view has as much of a common table.
    :param lost_view: why the view is not the one that the last epoch left; empty if it is.
    :param verified: the result of the newest finished verification, if there is one.
    :param verification_waits: whether a verification is requested and waits.
    :param verification_problem: why these two are unknown, if they are.
    :param chain: the jobs before this one, whose views lead to its upstream.
    :param other_chains: the jobs whose views lead to the upstreams beside the one that leads, by their names.
    :param rebuild: the contents of the tables of the rebuild that grows beside the view, if there is one.
    :param cut_over: what is ready to go live, and waits for an approval, if anything is.
    """

    settings: JobSettings
    state: BackfillState
    barriers: tuple[Barrier, ...]
    commits: tuple[EpochCommit, ...]
    failures: tuple[EpochFailure, ...] = ()
    feed: ChangeFeed
    other_feeds: Mapping[str, ChangeFeed] = field(default_factory=dict)
    held: Sequence[HeldUpstream] = ()
    lost_view: str = ""
    verified: VerifiedState | None = None
    verification_waits: bool = False
    verification_problem: str | None = None
    rebuild: ReadBackfill | None = None
    cut_over: CutOverStatus | None = None
    chain: UpstreamChain = NO_CHAIN
    other_chains: Mapping[str, UpstreamChain] = field(default_factory=dict)

    def status(self, clock: Clock = utc_now) -> JobStatus:
        """Describe the job, vnode by vnode."""
        status = job_status(settings=self.settings, state=self.state, **self._seen(clock))
        return status.model_copy(update=self._rebuild(clock))

    def summary(self, clock: Clock = utc_now) -> JobSummary:
        """Describe the job, all vnodes together; fast even with tens of thousands of vnodes."""
        summary = job_summary(settings=self.settings, state=self.state, **self._seen(clock))
        return summary.model_copy(update=self._rebuild(clock))

    def behind_roots(self) -> BehindRoot | None:
        """Return how far the view is behind all tables that it is made of; ``None`` if that is unknown of one."""
        summary, lead = self.summary(), self.settings.definition.lead_name
        since = {name: found.behind_since for name, found in summary.upstreams.items()} or {lead: summary.behind_since}
        feeds, chains = {lead: self.feed, **self.other_feeds}, {lead: self.chain, **self.other_chains}
        behind = {name: None if feeds[name].unanswered else BehindRoot(found) for name, found in since.items()}
        return furthest(chains[name].behind_root if chains[name].jobs else found for name, found in behind.items())

    def _rebuild(self, clock: Clock) -> dict[str, JobSummary]:
        if self.rebuild is None:
            return {}
        found = self.rebuild.summary(clock)
        if self.cut_over is not None and self.cut_over.kind is CutOverKind.REBUILD:
            found = found.model_copy(update={"condition": JobCondition.READY, "finished": False})
        return {"rebuild": found}

    def _seen(self, clock: Clock) -> dict[str, Any]:
        return {
            "barriers": self.barriers,
            "commits": self.commits,
            "failures": self.failures,
            "feed": self.feed,
            "other_feeds": self.other_feeds,
            "held": self.held,
            "cut_over": self.cut_over,
            "lost_view": self.lost_view,
            "now": clock(),
            "verified": self.verified,
            "verification_waits": self.verification_waits,
            "verification_problem": self.verification_problem,
            "chain": self.chain,
            "other_chains": self.other_chains,
        }
