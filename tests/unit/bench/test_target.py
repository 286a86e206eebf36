"""What a target says about a measured figure."""

from __future__ import annotations

import pytest

from bench.target import Target


def target(**fields):
    return Target("epoch against computing all", 0.4, "times", "joins", lambda found: found, **fields)


@pytest.mark.parametrize(
    ("figure", "verdict"), [(None, "not measured"), (0.4, "pass"), (0.41, "missed"), (0.7, "missed"), (0.71, "FAIL")]
)
def test_a_missed_target_fails_beyond_its_limit(figure, verdict):
    assert target(limit=0.7).verdict(figure) == verdict


def test_without_a_limit_a_missed_target_fails():
    assert target().verdict(0.41) == "FAIL"


def test_a_lower_bound_has_a_lower_limit():
    at_least = target(at_least=True, limit=0.3)

    assert [at_least.verdict(figure) for figure in (0.5, 0.35, 0.2)] == ["pass", "missed", "FAIL"]


def test_a_line_shows_bound_and_limit():
    assert target(limit=0.7).row(0.5) == (
        "epoch against computing all",
        "≤ 0.4 times, limit 0.7",
        "0.50 times",
        "missed",
    )
