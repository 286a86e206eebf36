"""The contestants: the limit, two peers, and variants of this package. One line here adds a variant."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.hooks.spark_application import application_path
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.adoption import AdoptingEngine
from airflow_backfill_provider.jobs.backfill import Backfill
from bench.comparison.by_hand import ByHand, chunks_of_keys
from bench.comparison.peers import ChangeFeedStream, KeyRangeLoop
from bench.comparison.stage import Stage
from bench.comparison.workload import QUERY
from bench.submitting import submit

REQUESTER = Requester(user="bench")


class Contestant(Protocol):
    """A way to make a view that equals the query over the upstream's last version."""

    @property
    def name(self) -> str:
        """The name in tables and plots."""
        ...

    def run(self, stage: Stage) -> None:
        """Make the stage's view, and let all commits of the upstream happen in the course of it."""
        ...


@dataclass(frozen=True, slots=True)
class Copy:
    """The limit: one statement that copies the last version, after all changes."""

    name: str = "CREATE TABLE AS SELECT"

    def run(self, stage: Stage) -> None:
        """Let all commits happen, then copy."""
        while stage.commit():
            pass
        query = QUERY.replace("FROM upstream", f"FROM delta.`{stage.upstream}`")
        stage.spark.sql(f"CREATE TABLE delta.`{stage.view}` USING delta AS {query}")


@dataclass(frozen=True, slots=True)
class JobVariant:
    """
    A job as a user would define it.

    :param name: the name of the variant.
    :param fields: the job's fields in addition to upstream, view and query.
    """

    name: str
    fields: dict[str, Any] = field(default_factory=dict)

    def backfill(self, stage: Stage) -> Backfill:
        """
        Return the job on a stage; its rate limit divides the first rows into the workload's epochs.

        The limit is a twentieth above an equal share, to leave room for the small files that commits add; otherwise
        there would be more epochs than are compared.
        """
        workload = stage.workload
        job = BackfillJob(
            name="bench",
            upstream={"path": str(stage.upstream), "key": ["order_id"]},
            materialized_view=str(stage.view),
            query=QUERY,
            state=str(stage.folder / "state"),
            **{"rate_limit": workload.rows * 21 // (20 * workload.epochs), **self.fields},
        )
        return Backfill(job)


def spark_engine(stage: Stage) -> AdoptingEngine:
    """Return an engine in the session that all contestants share."""
    return SparkEngine(stage.spark)


@dataclass(frozen=True, slots=True)
class WarmEpochs:
    """
    This package in an engine that stays alive: one epoch after each commit, then more until nothing is left to do.

    :param variant: the job.
    :param engine: makes the engine.
    :param suffix: the name of the engine.
    """

    variant: JobVariant
    engine: Callable[[Stage], AdoptingEngine] = spark_engine
    suffix: str = "warm"

    @property
    def name(self) -> str:
        """The variant and the engine."""
        return f"{self.variant.name}, {self.suffix}"

    def run(self, stage: Stage) -> None:
        """Create the job, and run its epochs."""
        backfill, engine = self.variant.backfill(stage), self.engine(stage)
        creation.create_job(
            backfill.job,
            store=backfill.store,
            upstream=backfill.upstream,
            engine=lambda: engine,
            requested_by=str(REQUESTER),
        )
        _run_epochs(stage, backfill, lambda barrier: protocol.run_epoch(barrier, store=backfill.store, engine=engine))


@dataclass(frozen=True, slots=True)
class ColdEpochs:
    """
    This package as Airflow runs it without a warm engine: one ``spark-submit`` for each epoch.

    :param variant: the job.
    """

    variant: JobVariant

    @property
    def name(self) -> str:
        """The variant, cold."""
        return f"{self.variant.name}, cold"

    def run(self, stage: Stage) -> None:
        """Create the job, and run its epochs."""
        backfill = self.variant.backfill(stage)
        definition = json.dumps(backfill.job.model_dump(mode="json"))
        submit(application_path("backfill_job.py"), ["create", "--job", definition, "--requested-by", "bench"])
        state = backfill.job.state

        def run_epoch(barrier: Barrier) -> None:
            submit(application_path("backfill_epoch.py"), ["--state", state, "--epoch", str(barrier.epoch)])

        _run_epochs(stage, backfill, run_epoch)


def _run_epochs(stage: Stage, backfill: Backfill, run: Callable[[Barrier], object]) -> None:
    """Run an epoch after each commit, then more until nothing is left to do."""
    while True:
        more = stage.commit()
        with stage.step():
            barrier = protocol.inject_barrier(
                store=backfill.store, upstream=backfill.upstream, requester=REQUESTER
            ).barrier
            if barrier is not None:
                run(barrier)
        if barrier is None and not more:
            return


DELETION_VECTORS = {"table_properties": {"delta.enableDeletionVectors": "true"}}
HIDDEN = {"visibility": "on_finish", **DELETION_VECTORS}

PLAIN = (JobVariant("no_shuffle", {"strategy": "no_shuffle"}), JobVariant("arrangement", {"strategy": "arrangement"}))
"""Jobs with default settings, for each strategy."""

SKIPPING = JobVariant("no_shuffle with deletion vectors", {"strategy": "no_shuffle", **DELETION_VECTORS})
"""Recommended for views that are kept fresh."""

FASTEST = JobVariant("snapshot with deletion vectors", {"strategy": "snapshot", **HIDDEN})
"""Recommended for a first backfill."""

HIDDEN_ARRANGEMENT = JobVariant(
    "arrangement with deletion vectors, hidden until finished", {"strategy": "arrangement", **HIDDEN}
)

VARIANTS = (
    *PLAIN,
    SKIPPING,
    JobVariant("arrangement with deletion vectors", {"strategy": "arrangement", **DELETION_VECTORS}),
    FASTEST,
    JobVariant("no_shuffle with deletion vectors, hidden until finished", {"strategy": "no_shuffle", **HIDDEN}),
    HIDDEN_ARRANGEMENT,
)

CONTESTANTS: tuple[Contestant, ...] = (
    Copy(),
    ByHand(),
    ByHand("the same commits by hand, in key order", chunks_of_keys),
    ChangeFeedStream(),
    KeyRangeLoop(),
    *map(WarmEpochs, VARIANTS),
    *map(ColdEpochs, PLAIN),
)
