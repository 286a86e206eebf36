"""
The files of all upstreams that lead, as the scan numbers them: one upstream after the other.

Most jobs have one. Of a union, each upstream that leads a branch is read in chunks, and all share one position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.kinds import further_leads
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.numbered_files import NumberedFile, NumberedFiles
from airflow_backfill_provider.strategies.snapshot.scan import BEFORE_ROWS, FILES_END, place_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadFiles:
    """
    The files of one upstream that leads.

    :param name: its name in the job; empty for the one that leads the job.
    :param listing: its files.
    :param offset: the pinned offset, as of which they are read.
    :param first: the number of its first file.
    """

    name: str
    listing: NumberedFiles
    offset: Offset
    first: int

    @property
    def files(self) -> Sequence[NumberedFile]:
        """The files, in the order of their numbers."""
        return self.listing.files(self.offset)

    def indexes_in(self, covered: KeyRange) -> range:
        """Return which of the files a range of the scan has rows of, by their places in :attr:`files`."""
        count = len(self.files)
        if covered.after == FILES_END:
            return range(0)
        begin = 0 if covered.after is None else place_of(covered.after)[0]
        end = self.first + count
        if covered.up_to not in {None, FILES_END}:
            number, row = place_of(covered.up_to or FILES_END)
            end = number if row == BEFORE_ROWS else number + 1
        return range(min(max(begin - self.first, 0), count), max(min(end - self.first, count), 0))


def files_of(upstream: Source) -> NumberedFiles:
    """
    Return a source's files.

    :raises InvalidJobError: if it has none.
    """
    if upstream.numbered_files is None:
        raise InvalidJobError(f"strategy: snapshot reads files, and {upstream.location} has none; use auto")
    return upstream.numbered_files


def lead_files(settings: JobSettings, upstream: Source, further: Mapping[str, Source]) -> tuple[LeadFiles, ...]:
    """
    Return the files of all upstreams that lead, in the order of their numbers.

    :param upstream: the one that leads the job.
    :param further: those that lead further branches, by their names; see :func:`opened_leads`.
    :raises InvalidJobError: if one of them has no files.
    """
    return tuple(_numbered(settings, upstream, further))


def _numbered(settings: JobSettings, upstream: Source, further: Mapping[str, Source]) -> Iterator[LeadFiles]:
    found = LeadFiles(name="", listing=files_of(upstream), offset=settings.first_offset, first=0)
    yield found
    for name, source in further.items():
        first = found.first + len(found.files)
        found = LeadFiles(name=name, listing=files_of(source), offset=settings.others[name].point.offset, first=first)
        yield found


def opened_leads(settings: JobSettings, storage_options: Mapping[str, str] | None) -> Mapping[str, Source]:
    """Return the upstreams that lead further branches, opened, by their names; none for most jobs."""
    job = settings.definition
    return {name: open_source(job.others[name], storage_options) for name in further_leads(job)}
