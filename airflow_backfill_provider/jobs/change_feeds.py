"""What the upstreams of a job have that its epochs have not read, and how long it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.core.scan.offset import BEGINNING
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.core.status.watchdog import changes_needed_after, reached_point, read_up_to
from airflow_backfill_provider.sources import Source, open_source
from airflow_backfill_provider.strategies import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeeds:
    """
    The change feeds of a job's upstreams.

    :param barriers: the newest barriers of the log, ascending.
    :param commits: their commits.
    :param storage_options: options of the object store.
    """

    settings: JobSettings
    state: BackfillState
    barriers: Sequence[Barrier]
    commits: Sequence[EpochCommit]
    storage_options: Mapping[str, str] | None

    def of_lead(self, open_upstream: Callable[[], Source]) -> ChangeFeed:
        """
        Return what the job still needs of its upstream: its changes, and files while the job reads these.

        Of one of several that cannot be read, it says why, so that the rest of a status is still shown.

        :param open_upstream: opens the only upstream, or the one that leads.
        :raises UpstreamError: if the only upstream cannot be read.
        """
        return self._answered(None, lambda: self._of_lead(open_upstream()))

    def of_others(self) -> Mapping[str, ChangeFeed]:
        """Return what the job still needs of the upstreams beside the one that leads, by their names; see above."""
        return {name: self._answered(name, partial(self._of_other, name)) for name in self.settings.others}

    def _of_lead(self, upstream: Source) -> ChangeFeed:
        settings, barriers, commits = self.settings, self.barriers, self.commits
        read = read_up_to(settings, barriers, commits)
        strategy = KINDS.named(settings.strategy)
        if read is not None:
            upstream.note_read(strategy.read_of_splits(settings, self.state, read))
        feed = upstream.change_feed(
            read,
            changes_needed_after(settings, barriers, commits),
            created_on=settings.upstream,
            reached=reached_point(settings, barriers),
        )
        if not settings.needs_changes:
            feed = feed.without_changes()
        files, needed = upstream.numbered_files, strategy.files_needed(settings, self.state)
        if files is None or needed is None or feed.replaced or settings.cancelled:
            return feed
        removal = files.first_removal(needed, feed.latest)
        return feed if removal is None else feed.needing(*removal)

    def _of_other(self, name: str) -> ChangeFeed:
        settings = self.settings
        read = read_up_to(settings, self.barriers, self.commits, name)
        feed = open_source(settings.definition.others[name], self.storage_options).change_feed(
            read, read, created_on=settings.others[name], reached=reached_point(settings, self.barriers, name)
        )
        return feed if settings.needs_changes else feed.without_changes()

    def _answered(self, other: str | None, read_feed: Callable[[], ChangeFeed]) -> ChangeFeed:
        try:
            return read_feed()
        except UpstreamError as error:
            if not self.settings.others:
                raise
            read = read_up_to(self.settings, self.barriers, self.commits, other)
            return ChangeFeed(
                latest=BEGINNING if read is None else read,
                kept_for=None,
                unanswered=f"upstream {other or self.settings.definition.lead_name} cannot be read: {error}",
            )
