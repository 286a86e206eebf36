"""Arguments as templates render them."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.operators.arguments import age_of, epoch_of, fraction_of, keys_of


@pytest.mark.parametrize("value", [5, "5", " 5 ", {"epoch": 5}])
def test_an_epoch_is_a_number_or_what_a_barrier_task_returned(value):
    assert epoch_of(value) == 5


@pytest.mark.parametrize("value", [0, -1, "x", None, True, 1.0, {"epoch": None}, {}])
def test_anything_else_is_no_epoch(value):
    with pytest.raises(InvalidJobError, match=r"^epoch: .* is not an epoch; give"):
        epoch_of(value)


@pytest.mark.parametrize(("value", "fraction"), [(0, 0.0), (1, 1.0), ("0.5", 0.5), (0.25, 0.25)])
def test_a_fraction_may_be_text(value, fraction):
    assert fraction_of(value) == fraction


@pytest.mark.parametrize("value", [-0.1, 1.1, 50, "50%", None, "nan"])
def test_a_number_outside_of_0_and_1_is_no_fraction(value):
    with pytest.raises(InvalidJobError, match="at_least"):
        fraction_of(value)


def test_a_key_that_a_template_rendered_keeps_its_digits():
    """A decimal that went through a float would be another key."""
    assert keys_of("[1.10, [2, null]]") == ["1.10", [2, None]]


@pytest.mark.parametrize("value", ["inf", float("inf"), "nan", -1])
def test_an_age_has_a_limit(value):
    with pytest.raises(InvalidJobError, match="max_age"):
        age_of(value)
