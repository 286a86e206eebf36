"""The numbers of the files of several upstreams, and which files a range of the scan has rows of."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.strategies.snapshot.lead_files import LeadFiles, files_of, lead_files
from airflow_backfill_provider.strategies.snapshot.scan import FILES_END, before_file
from tests.builders import job_of, settings_of


@dataclass
class Files:
    """The files of an upstream, of which only the number matters."""

    count: int
    location: str = "/lake/orders"

    @property
    def numbered_files(self):
        return self

    def files(self, offset):
        return [f"{offset.number}/{number}" for number in range(self.count)]


def lead(first, count):
    return LeadFiles(name="", listing=Files(count), offset=Offset(1), first=first)


@pytest.mark.parametrize(
    ("covered", "indexes"),
    [
        (EVERYTHING, [[0, 1, 2], [], [0, 1]]),
        (KeyRange(None, before_file(1)), [[0], [], []]),
        (KeyRange(None, (1, 5)), [[0, 1], [], []]),
        (KeyRange((1, 5), before_file(3)), [[1, 2], [], []]),
        (KeyRange(before_file(2), (3, 0)), [[2], [], [0]]),
        (KeyRange((3, 0), before_file(4)), [[], [], [0]]),
        (KeyRange((3, 0), FILES_END), [[], [], [0, 1]]),
        (KeyRange(FILES_END, None), [[], [], []]),
    ],
)
def test_a_range_has_rows_of_some_files_of_each_upstream(covered, indexes):
    """The first upstream has three files, the next one none, and the last one two."""
    assert [[*found.indexes_in(covered)] for found in (lead(0, 3), lead(3, 0), lead(3, 2))] == indexes


def test_most_jobs_have_one_upstream_that_leads():
    settings = settings_of(job_of(strategy="snapshot"), strategy="snapshot", start=HistoryPoint(offset=Offset(4)))
    (found,) = lead_files(settings, Files(2), {})
    assert (found.first, found.files) == (0, ["4/0", "4/1"])


def test_a_source_without_files_is_refused():
    @dataclass
    class Database:
        location: str = "shop.public.orders"
        numbered_files: None = None

    with pytest.raises(InvalidJobError, match=r"^strategy: snapshot reads files, and shop.public.orders has none"):
        files_of(Database())
