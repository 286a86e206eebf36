"""The kinds of the three seams: registered from anywhere, known in every process, and found by their names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.core.kinds import SHAPES, SOURCES, STRATEGIES, Kinds, shape_of
from airflow_backfill_provider.core.refresh import INCREMENTAL_ONLY, Refresh
from tests.builders import job_fields


@dataclass
class Named:
    name: str


def test_a_kind_is_found_by_its_name():
    kinds: Kinds[Named] = Kinds("strategy")
    first, second = Named("first"), Named("second")
    kinds.register(first)
    kinds.register(second)
    kinds.register(first)
    assert (kinds.named("second"), kinds.names, list(kinds), "first" in kinds) == (
        second,
        ("first", "second"),
        [first, second],
        True,
    )
    with pytest.raises(ValueError, match="a strategy named first is already registered"):
        kinds.register(Named("first"))
    kinds.register(Named("zeroth"), before="first")
    assert kinds.names == ("zeroth", "first", "second")
    kinds.forget("zeroth")
    with pytest.raises(ValueError, match="no strategy is named third; registered are first, second"):
        kinds.register(Named("fourth"), before="third")
    kinds.forget("first")
    kinds.forget("never there")
    with pytest.raises(InvalidJobError, match="strategy: first is unknown; allowed are second"):
        kinds.named("first")


def test_importing_any_part_of_the_package_registers_its_kinds_and_loads_nothing_heavy():
    """A scheduler does so for every DAG."""
    code = (
        "import sys; from airflow_backfill_provider.core.kinds import SHAPES, SOURCES, STRATEGIES;"
        "print(SOURCES.names, STRATEGIES.names, SHAPES.names);"
        "print([m for m in ('airflow', 'deltalake', 'pandas', 'pyarrow', 'pyspark', 'sqlglot') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert (
        found == "('delta', 'postgres', 'debezium', 'kafka', 'append_only', 'files', 'upserts') "
        "('snapshot', 'no_shuffle', 'arrangement', 'cdc', 'source') "
        "('row', 'group', 'joined_groups', 'union', 'join', 'full')\n[]\n"
    )
    assert (SOURCES.names[0], STRATEGIES.names[:2], SHAPES.names[0]) == ("delta", ("snapshot", "no_shuffle"), "row")


# --- the shape of a query -------------------------------------------------------------------------


class Anything:
    """A shape that takes every query."""

    name: ClassVar[str] = "anything"
    refreshes: ClassVar[frozenset[Refresh]] = INCREMENTAL_ONLY
    takes_upstreams: ClassVar[bool] = False

    def query(self, text: str) -> str:
        return text

    def require_job(self, job: BackfillJob) -> None:
        raise InvalidJobError("query: it takes no job")


@pytest.fixture
def anything() -> Iterator[None]:
    SHAPES.register(Anything(), before="group")
    yield
    SHAPES.forget("anything")


def test_the_first_shape_that_takes_a_query_is_its_shape(anything):
    assert shape_of("SELECT id FROM upstream").name == "row"
    assert shape_of("SELECT count(*) FROM upstream").name == "anything"
    with pytest.raises(InvalidJobError, match="it takes no job"):
        BackfillJob(**job_fields(query="SELECT count(*) AS n FROM upstream"))


def test_if_no_shape_takes_a_query_the_first_one_says_why():
    with pytest.raises(InvalidJobError, match="explode, which returns several rows"):
        shape_of("SELECT explode(tags) FROM upstream")


# --- the kind of an upstream ----------------------------------------------------------------------


class TopicUpstream(UpstreamDefinition):
    kind: ClassVar[str] = "topic"

    topic: str
    connection: str = "events"

    @property
    def location(self) -> str:
        return f"{self.connection}/{self.topic}"


class Topics:
    name: ClassVar[str] = "topic"
    definition: ClassVar[type[UpstreamDefinition]] = TopicUpstream


@pytest.fixture
def topics() -> Iterator[None]:
    SOURCES.register(Topics())
    yield
    SOURCES.forget("topic")


def test_an_upstream_is_written_under_the_name_of_its_kind(topics):
    """docs/reference/job.md."""
    job = BackfillJob(**job_fields(upstream={"topic": {"topic": "orders", "key": ["id"]}}))
    assert isinstance(job.upstream, TopicUpstream)
    assert (job.upstream.location, job.upstream.folders) == ("events/orders", {})
    assert (job.upstream.key[0].column, job.upstream.distribution_key) == ("id", ("id",))
    written = job.model_dump(mode="json")
    assert list(written["upstream"]) == ["topic"]
    assert BackfillJob(**written) == job


def test_the_fields_of_the_first_kind_need_no_name(topics):
    job = BackfillJob(**job_fields())
    assert set(job.model_dump(mode="json")["upstream"]) == {"path", "key", "distribution_key"}
    assert BackfillJob(**job.model_dump(mode="json")) == job


@pytest.mark.parametrize(
    ("upstream", "message"),
    [
        ({"topic": {"key": ["id"]}}, "upstream.topic.topic: is required"),
        ({"topic": {"topic": "orders", "key": []}}, "upstream.topic.key: is required, with at least 1 item"),
        (
            {"topic": {"topic": "orders", "key": ["id"], "path": "/x"}},
            "upstream.topic.path: unknown field; allowed are topic, connection, key, distribution_key",
        ),
        (
            {"queue": {"topic": "orders"}},
            "upstream.queue: unknown field; allowed are table, path, key, distribution_key",
        ),
        ("orders", "upstream: "),
    ],
)
def test_a_wrong_upstream_is_refused_by_the_field_and_with_what_its_kind_allows(topics, upstream, message):
    with pytest.raises(InvalidJobError) as refused:
        BackfillJob(**job_fields(upstream=upstream))
    assert message in str(refused.value)


def test_the_core_registers_nothing_itself():
    assert not [name for name in vars(kinds) if "importlib" in name]
