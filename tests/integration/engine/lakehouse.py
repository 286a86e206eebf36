"""A small lakehouse on real Spark and Delta: an upstream that changes, and a job over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs import table_locator as placement
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.lake.log.delta_log import DeltaLog, stamp_of
from tests.integration.engine.quick_changes import is_changed
from tests.integration.engine.upstream_templates import BeginningUpstream, UpstreamTemplates

CHANGE_DATA_FEED = {"delta.enableChangeDataFeed": "true"}
TESTER = Requester(user="tester")


class UnlockedEngine(SparkEngine):
    """An engine that takes no turns, so that a test can interleave two of them inside one JVM."""

    def exclusive(self, state: str) -> AbstractContextManager[None]:
        del state
        return nullcontext()


class Lakehouse:
    """
    An upstream table and one job.

    :param spark: the tests' session.
    :param folder: where tables are made.
    :param storage_options: options of the object store in which they are made, as deltalake takes them.
    """

    def __init__(
        self, spark: SparkSession, folder: Path | str, storage_options: Mapping[str, str] | None = None
    ) -> None:
        self.spark = spark
        self.folder: Any = folder
        self.storage_options = dict(storage_options) if storage_options else None
        self.upstream_path = f"{folder}/orders"
        self.view_path = f"{folder}/view"
        self.engine = SparkEngine(spark, storage_options)
        self.job: BackfillJob | None = None
        self.templates: UpstreamTemplates | None = None
        self._beginning: BeginningUpstream | None = None

    def copy_from(self, templates: UpstreamTemplates) -> None:
        """Begin with a copy of an upstream that another test has made, as far as the statements are the same."""
        self.templates = templates
        self._beginning = BeginningUpstream(templates)

    def on_disk(self, location: str) -> Path:
        """Return where the files of a location lie on this machine, so that a test can damage or count them."""
        return Path(location)

    def exists(self, location: str) -> bool:
        """Return whether anything lies at a location, such as a folder without files."""
        return self.on_disk(location).exists()

    def unlocked_engine(self) -> UnlockedEngine:
        """Return an engine with a session of its own, which takes no turns."""
        return UnlockedEngine(self.spark.newSession(), self.storage_options)

    @property
    def upstream(self) -> str:
        """The upstream's name in SQL."""
        return f"delta.{quote(self.upstream_path)}"

    @property
    def view_name(self) -> str:
        """The view's name in SQL."""
        return f"delta.{quote(self.view_path)}"

    def sql(self, statement: str) -> DataFrame:
        """Run a statement; ``{upstream}`` and ``{view}`` stand for the two tables."""
        if statement.startswith("INSERT INTO {upstream}") and self._repeats(statement):
            return self.spark.range(0)
        return self._run(statement)

    def change(self, *statements: str) -> None:
        """Change the upstream by deltalake, if it can, because it needs a fraction of the time."""
        for statement in statements:
            if not is_changed(statement.replace("{upstream}", "changed"), self.upstream_path, self.storage_options):
                self.sql(statement)

    def _run(self, statement: str) -> DataFrame:
        return self.spark.sql(statement.replace("{upstream}", self.upstream).replace("{view}", self.view_name))

    def make_upstream(self, columns: str, properties: Mapping[str, str] | None = None) -> None:
        """Create the empty upstream table with change data feed."""
        assignments = ", ".join(f"'{k}' = '{v}'" for k, v in (properties or CHANGE_DATA_FEED).items())
        statement = f"CREATE TABLE {{upstream}} ({columns}) USING delta TBLPROPERTIES ({assignments})"
        if not self._repeats(statement):
            self._run(statement)

    def _repeats(self, statement: str) -> bool:
        """Run a statement, or copy what it made in another test, if it can be repeated; not once there is a job."""
        beginning, path = self._beginning, self.on_disk(self.upstream_path)
        if beginning and (self.job or not beginning.run(statement, path, lambda: self._run(statement))):
            self._beginning = None
        return self._beginning is not None

    def define(self, **fields: Any) -> Backfill:
        """Define the job without creating it."""
        key = fields.pop("key", ["id"])
        definition = {
            "name": "orders_view",
            "upstream": {"path": self.upstream_path, "key": key},
            "materialized_view": self.view_path,
            "query": "SELECT * FROM upstream",
            "vnode_count": 4,
            **fields,
        }
        self.job = BackfillJob(**definition)
        return self.backfill

    @property
    def backfill(self) -> Backfill:
        """The job with its tables."""
        assert self.job is not None
        return Backfill(self.job, self.storage_options)

    def create(self, **fields: Any) -> JobSettings:
        """Define and create the job."""
        return self.start_job(creation.create_job, placement.to_create(self.define(**fields), lambda: self.engine))

    def rebuild(self, **fields: Any) -> JobSettings:
        """Start the job over with another definition."""
        return self.start_job(creation.rebuild_job, placement.to_rebuild(self.define(**fields), lambda: self.engine))

    def start_job(self, action: Callable[..., JobSettings], backfill: Backfill) -> JobSettings:
        """Create a job, or rebuild it in some way."""
        return action(
            backfill.job,
            store=backfill.store,
            upstream=backfill.upstream,
            engine=lambda: self.engine,
            requested_by="tester",
        )

    def inject(self) -> Barrier | None:
        """Pin the next barrier."""
        backfill = self.backfill
        return protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=TESTER).barrier

    def run(self, barrier: Barrier, engine: SparkEngine | None = None) -> EpochCommit:
        """Run a pinned barrier."""
        return protocol.run_epoch(barrier, store=self.backfill.store, engine=engine or self.engine)

    def epoch(self) -> EpochCommit | None:
        """Inject and run one epoch; None if there is nothing to do."""
        barrier = self.inject()
        return None if barrier is None else self.run(barrier)

    def finish(self, most: int = 60) -> list[EpochCommit]:
        """Run epochs until there is nothing to do."""
        commits = []
        for _ in range(most):
            commit = self.epoch()
            if commit is None:
                return commits
            commits.append(commit)
        raise AssertionError(f"not finished after {most} epochs")

    def view(self) -> DataFrame:
        """The view's rows."""
        return self.spark.read.format("delta").load(self.view_path)

    def view_events(self, after: int = -1) -> list[object]:
        """Return the events in the stamps of the view's commits after a version, in order."""
        log = DeltaLog(self.view_path, self.storage_options)
        commits = [log.commit(version) for version in log.versions() if version > after]
        return [stamp_of(commit).get("event") for commit in commits if commit is not None]

    def barriers(self) -> Iterator[Barrier]:
        """All barriers, oldest first."""
        yield from self.backfill.store.barriers()

    def assert_truth(self) -> None:
        """Hold I1: the view is the query over the upstream as of the last epoch, up to its position."""
        outcome = verifier.compare_now(self.backfill, self.engine)
        assert outcome.equal, outcome

    def assert_equals_query(self, query: str) -> None:
        """Compare the view with a query written down independently of the engine; in Python, which is faster."""
        expected = self.sql(query)
        found = self.view().select(*[quote(name) for name in expected.columns])
        assert sorted(map(repr, found.collect())) == sorted(map(repr, expected.collect()))
