"""Play a case: tables change, epochs run, and what the view keeps is compared with a history in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.errors import QueryFailedError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.keep import Keep, ValidBy
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.sources.delta.versions import version_of
from faults.campaign import WrongError
from faults.epoch_attempts import newest_epoch
from faults.groups.truth import differences, require_same
from faults.histories.case import Past
from faults.lives.tables import UPSTREAM
from faults.one_view import OneViewGame
from faults.shapes.truth import values_of
from tests import former_units, kept_histories

Row = tuple[Any, ...]


class Game(OneViewGame):
    """
    Plays one case.

    :param past: the case.
    :param spark: any session; the writers, the engine and the truth get new ones.
    :param folder: an empty folder.
    """

    def __init__(self, past: Past, spark: SparkSession, folder: Path) -> None:
        super().__init__(past.tables, past.seed, spark, folder)
        self.past = past
        self._since = 0
        self._states: dict[int, list[Row]] = {}
        """What the view has of an epoch → the query's rows after it, once the view is finished."""

    def play(self) -> None:
        """Play the case to its end; raise what is wrong."""
        self._tables.make()
        first, *others = self.past.changes
        self._tables.change(first)
        try:
            self._created()
            self._all_epochs()
            for changes in others:
                self._tables.change(changes)
                self._some_epochs()
            self._all_epochs()
            self._require_past()
        except QueryFailedError as error:
            self._tables.require_failing([self.past.query], error)

    def _created(self) -> None:
        fields = {"query": self.past.query, **self._tables.definition, **self.past.fields}
        self._since = 0 if self.past.begins_earlier else self._tables.newest.get(UPSTREAM, 0)
        if self.past.begins_earlier:
            fields["as_of"] = self._random.choice((0, "oldest"))
        self._lake.job = BackfillJob(name="past", materialized_view=self._lake.view_path, **fields)
        self._create(self._lake.backfill)

    # Epochs.

    def _epoch(self) -> bool:
        """Run an epoch in some way, and compare the present rows; return whether there was anything to do."""
        barrier = self._inject()
        if barrier is None:
            return False
        before = len([*self._lake.barriers()])
        self.happened[self._attempts.run(barrier)] += 1
        # An attempt that overtakes another one may run the next epoch, too.
        for ran in [*self._lake.barriers()][before - 1 :]:
            self._remember(ran)
        commit, versions = newest_epoch(self._lake)
        if commit.completed:
            wanted = self._expected(versions)
            self._require_same(self._present(), wanted, f"I1: epoch {commit.epoch}")
        return True

    def _remember(self, barrier: Barrier) -> None:
        """Remember what the query gives after an epoch that leaves a finished view."""
        commit = next((one for one in self._lake.backfill.store.commits() if one.epoch == barrier.epoch), None)
        if commit is None or not commit.completed:
            return
        versions = {window.relation: version_of(window.to_offset) for window in barrier.windows}
        self._states[self._point(barrier)] = values_of(self._expected(versions))

    def _point(self, barrier: Barrier) -> int:
        assert self._lake.job is not None
        by_epoch = self._lake.job.valid_by is ValidBy.EPOCH
        return barrier.epoch if by_epoch else version_of(barrier.upstream.to_offset)

    # What the view has.

    def _present(self) -> DataFrame:
        return self._lake.view().filter(self.past.keep.is_present_in_sql)

    def _expected(self, versions: Mapping[str, int]) -> DataFrame:
        try:
            return self._tables.result(self.past.query, versions)
        except PySparkException as error:
            raise WrongError(f"Spark refuses what the job has computed: {self.past.query}: {error}") from error

    def _kept(self) -> list[Row]:
        """Return the view's rows, each with the columns of its past at its end."""
        names = (*self._expected(self._tables.newest).columns, *self.past.keep.columns)
        return values_of(self._lake.view().select(*map(quote, names)))

    # What is compared.

    def _require_same(self, found: DataFrame, wanted: DataFrame, when: str) -> None:
        self.checks += 1
        require_same(found, wanted, f"{when} of {self.past.query}")

    def _require_rows(self, wanted: Iterable[Row], found: Iterable[Row], when: str) -> None:
        self.checks += 1
        missing, more = differences([*wanted], [*found])
        if missing or more:
            raise WrongError(f"{when} of {self.past.query}: missing {missing[:3]!a}, unexpected {more[:3]!a}")

    def _require_past(self) -> None:
        if self.past.by_version:
            if self.past.fields["strategy"] == "snapshot":
                self._require_versions()
        elif self.past.keep is Keep.HISTORY:
            self._require_states()
        elif self.past.identity is not None:
            self._require_last_rows(self.past.identity)
        self._require_verified()

    def _require_versions(self) -> None:
        """Compare former rows with the rows of each version of the table."""
        known: dict[str, Row] = {}
        size = self.past.identity or 0
        versions: list[kept_histories.Rows] = []
        for version in range(self._tables.newest[UPSTREAM] + 1):
            rows = values_of(self._expected({UPSTREAM: version}))
            known |= {repr(row): row for row in rows}
            versions.append({repr(row[:size]): (repr(row),) for row in rows})
        keys = {key for rows in versions for key in rows}
        kept = {Keep.HISTORY: kept_histories.history_of, Keep.DELETED: kept_histories.deleted_of}[self.past.keep]
        wanted = kept(versions, dict.fromkeys(keys, self._since))
        self._require_rows(((*known[text], *rest) for _, (text,), *rest in wanted), self._kept(), "I1: all versions")

    def _require_states(self) -> None:
        """Compare the rows that were there at each epoch."""
        kept = self._kept()
        for point, wanted in self._states.items():
            there = [row[:-3] for row in kept if row[-3] <= point and (row[-2] is None or point < row[-2])]
            self._require_rows(wanted, there, f"I1: as of {point}")

    def _require_last_rows(self, identity: int) -> None:
        """Compare the last rows of each unit, from the epoch on that finished the view."""
        known = {repr(row): row for rows in self._states.values() for row in rows}
        units = {text: repr(row[:identity]) for text, row in known.items()}
        states = {point: Counter((repr(row),) for row in rows) for point, rows in self._states.items()}
        wanted = former_units.deleted_of(states, lambda row: units[row[0]])
        self._require_rows(
            ((*known[text], gone) for ((text,), gone) in wanted.elements()), self._kept(), "I1: gone units"
        )
