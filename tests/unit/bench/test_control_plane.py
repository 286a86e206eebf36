"""The jobs that the benchmark of the control plane makes are jobs of the package."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.state.store import BackfillStore
from bench import control_plane
from bench.made_jobs import make_job, state_of


def test_a_generated_job_has_the_requested_progress(tmp_path):
    job = make_job(tmp_path, "made", 6)
    assert BackfillStore(job.state).state() == state_of(6, epoch=1)


@pytest.mark.exhaustive
def test_a_barrier_is_injected_on_an_upstream_of_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(control_plane, "FILES", 200)
    monkeypatch.setattr(control_plane, "COMMITS", 2)
    measured = control_plane.injection(tmp_path)
    assert set(measured) == {"injection_seconds", "injection_cpu_seconds", "injection_peak_bytes"}
    assert all(measured.values())
