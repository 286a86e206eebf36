"""What must hold of a view of groups: after an epoch (I1), at each version once it is finished (I7), and downstream."""

from __future__ import annotations

from collections import Counter

from tests.model.groups_job import Job
from tests.model.groups_rows import Sale, sales
from tests.model.truth import InvariantError, Output


class Watch:
    """Whoever reads a finished view: any version of it (I7), and a view over it that keeps totals of its own."""

    def __init__(self) -> None:
        self.begun = False
        self._offset = 0
        self._version = 0
        self._epochs: set[tuple[str, int]] = set()
        self._downstream: Counter[Output] = Counter()
        self._downstream_read: Counter[Output] = Counter()

    def begin(self, job: Job) -> None:
        """From its finishing commit on, each version of the view is whole."""
        if not self.begun:
            self.begun, self._offset, self._version = True, job.committed_to, job.view.version

    def forgive(self, job: Job) -> None:
        """A foreign write is no epoch's."""
        self._version = job.view.version

    def check_version(self, job: Job, end: int) -> None:
        """I7: a version is the query at an offset, and the offset never goes back; an epoch changes rows once."""
        commits = job.view.log[self._version :]
        self._version = job.view.version
        changing = [(commit.part.partition("/")[0], commit.epoch) for commit in commits if commit.changes_rows]
        if not changing:
            return
        if len({*self._epochs, *changing}) < len(self._epochs) + len(changing):
            raise InvariantError(f"I7 whole versions: an epoch changes rows twice: {changing}")
        self._epochs |= set(changing)
        if end < self._offset:
            raise InvariantError(f"I7 whole versions: a reader goes back from {self._offset} to {end}")
        rows = sales(job.upstream.as_of(end).values())
        if job.query.visible(job.view.rows()) != job.query.over(rows):
            raise InvariantError(f"I7 whole versions: version {self._version} is not the query at {end}")
        self._offset = end

    def hand_over(self, job: Job, offset: int) -> None:
        """A rebuilt view is read from the beginning."""
        self.check_version(job, offset)
        self._downstream, self._downstream_read = Counter(), Counter()

    def read(self, job: Job) -> None:
        """Bring the other view up to date, from the changes between two whole versions; then compare it."""
        version = job.since if job.protocol.downstream_reads == "logged" else -1
        new = job.query.visible(job.view.rows(version))
        for sign, rows in ((-1, self._downstream_read - new), (1, new - self._downstream_read)):
            for row in rows.elements():
                self._downstream[row[-1:]] += sign
        self._downstream_read = new
        rows_then = job.query.over(sales(job.upstream.as_of(job.committed_to).values()))
        if +self._downstream != Counter(row[-1:] for row in rows_then.elements()):
            raise InvariantError(f"I1 truth: a view over the view is not its query at {job.committed_to}")


def check_truth(job: Job, rows: list[Sale]) -> None:
    """I1: a reader sees the query over these rows."""
    seen, expected = job.query.visible(job.view.rows()), job.query.over(rows)
    if seen != expected:
        raise InvariantError(f"I1 truth: lost {dict(expected - seen)}, extra {dict(seen - expected)}")
