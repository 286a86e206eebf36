"""The lives of views that the campaign draws: every definition is accepted, and all kinds of changes come up."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.definition_change import ChangeKind
from airflow_backfill_provider.shapes.changed_definition import change_of
from faults.lives.case import Beginning, Life, a_life
from faults.lives.tables import upstreams_of

pytestmark = pytest.mark.slow  # many random queries

LIVES = 60


def definitions_of(life: Life) -> list[BackfillJob]:
    """Return the definitions of a view, in their order."""
    fields: dict[str, Any] = {
        "name": "life",
        "materialized_view": "/lake/view",
        **upstreams_of(life.tables, Path("/lake")),
        **life.fields,
    }
    jobs = [BackfillJob(**fields, query=life.query)]
    for step in life.steps:
        fields |= step.fields
        jobs.append(BackfillJob(**fields, query=step.query))
    return jobs


def test_all_kinds_of_changes_are_drawn_and_every_definition_is_accepted() -> None:
    lives = [a_life(Random(f"life {number}")) for number in range(LIVES)]
    kinds = Counter(change_of(before, after).kind for life in lives for before, after in pairwise(definitions_of(life)))
    assert set(kinds) >= set(ChangeKind) - {ChangeKind.TECHNIQUE}
    assert {step.fields.get("refresh") for life in lives for step in life.steps} == {None, "incremental", "auto"}
    assert kinds[ChangeKind.EVERYTHING] < kinds.total() / 3
    assert {len(life.tables) > 1 for life in lives} == {True, False}
    assert {life.beginning for life in lives} == set(Beginning)
    assert any(life.is_damaged for life in lives)
    assert all(life.steps[-1].is_approved for life in lives)


def test_equal_seeds_draw_equal_lives() -> None:
    one, other = (a_life(Random("same")) for _ in range(2))
    assert one == other
    assert one.summary() == other.summary()
