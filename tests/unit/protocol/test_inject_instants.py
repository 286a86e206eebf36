"""Injecting a barrier for a run that sees the upstream as of an instant."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.job.requester import Requester
from tests.builders import part_of
from tests.unit.protocol import inject_helpers
from tests.unit.protocol.inject_helpers import TASK, minute

dated = inject_helpers.dated

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_runs_of_a_schedule_see_the_upstream_as_of_their_instants_in_order(dated):
    """Issue part 3: catch-up and backfill runs pass their ``data_interval_end``."""
    seen = []
    for number in (1, 2.5, 4):
        barrier = dated.inject(Requester(dag_id="d", run_id=f"r{number}", task_id="t"), until=minute(number))
        dated.run(barrier)
        dated.assert_truth()
        seen.append(
            (barrier.upstream.from_offset.number, barrier.upstream.to_offset.number, barrier.upstream.watermark)
        )
    assert seen == [(-1, 1, minute(1)), (1, 2, minute(2)), (2, 4, minute(4))]


def test_a_run_whose_window_is_covered_has_nothing_to_do(dated):
    """Issue part 3: it succeeds as a no-op that starts no Spark."""
    dated.run(dated.inject(until=minute(3)))
    injection = dated.ask(TASK, until=minute(1))
    assert injection.barrier is None
    assert injection.reason == "the window up to offset 1 is covered: the epochs have read up to offset 3"
    assert len(dated.store.barriers()) == 1


def test_a_run_of_an_earlier_version_than_the_epochs_has_nothing_to_do(dated):
    dated.run(dated.inject(until=minute(3)))
    assert dated.ask(TASK, until=minute(2)).reason == (
        "the window up to offset 2 is covered: the epochs have read up to offset 3"
    )


def test_a_run_before_the_upstream_began_has_nothing_to_do(dated):
    injection = dated.ask(until=minute(-1))
    assert injection.barrier is None
    assert "no offset as old as" in injection.reason


def test_an_unfinished_job_goes_on_reading_at_the_same_version(dated):
    """I4: every unpaused barrier advances the position, also without a new version."""
    dated.run(dated.inject(until=minute(2)))
    barrier = dated.inject(until=minute(2))
    assert (barrier.upstream.from_offset.number, barrier.upstream.to_offset.number) == (2, 2)
    assert barrier.parts == (part_of(("0",), ("1",)),)
    dated.run(barrier)
    dated.assert_truth()


def test_a_task_run_finds_its_barrier_whatever_instant_it_asks_for_now(dated):
    mine = dated.inject(TASK, until=minute(1))
    assert dated.ask(TASK, until=minute(4)).barrier == mine
