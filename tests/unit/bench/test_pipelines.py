"""The time of a pipeline's flow, by the events of its run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench.pipelines import flow_seconds

pytestmark = pytest.mark.slow  # imports Spark


def event(message, at):
    return SimpleNamespace(message=message, timestamp=SimpleNamespace(ToMilliseconds=lambda: at))


RUN = (
    event("Run is RUNNING.", 1_000),
    event("Flow bench_view is QUEUED.", 2_000),
    event("Flow bench_view is RUNNING.", 4_000),
    event("Flow bench_view has COMPLETED.", 9_500),
    event("Run has COMPLETED.", 12_000),
)


def test_the_start_and_the_end_of_the_run_do_not_count():
    assert flow_seconds(iter(RUN)) == 5.5


def test_a_flow_that_did_not_complete_has_no_time():
    with pytest.raises(KeyError):
        flow_seconds(iter(RUN[:3]))
