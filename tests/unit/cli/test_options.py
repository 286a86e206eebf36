"""Options of the command line, read as values. None of them may be a secret."""

from __future__ import annotations

import pytest
import typer

from airflow_backfill_provider.cli.options import key_of, pace_of, rate_limit_of, spark_conf


@pytest.mark.parametrize(
    ("written", "limit"), [("none", None), ("None", None), ("NONE", None), ("0", 0), ("007", 7), ("Auto", "auto")]
)
def test_a_rate_limit_is_a_number_of_rows_or_none(written, limit):
    assert rate_limit_of(written) == limit


@pytest.mark.parametrize(("written", "pace"), [("none", None), ("NONE", None), ("1", 1), ("0500", 500)])
def test_a_pace_is_a_number_of_rows_or_none(written, pace):
    assert pace_of(written) == pace


@pytest.mark.parametrize("written", ["0", "-1", "fast", "1.5", "", str(2**63)])
def test_nothing_else_is_a_pace(written):
    with pytest.raises(typer.BadParameter, match="is not a number of rows; give 1 or more, or none"):
        pace_of(written)


@pytest.mark.parametrize(
    ("written", "key"), [("1.10", "1.10"), ("[1.10, 7]", ["1.10", 7]), (' ["a"]', ["a"]), ("a[1]", "a[1]"), ("", "")]
)
def test_a_key_keeps_its_digits(written, key):
    """A decimal that went through a float would be another key."""
    assert key_of(written) == key


def test_the_name_of_a_setting_ends_at_the_first_equals_sign():
    written = ["spark.a=x=y", " spark.b = z", "spark.c="]
    assert spark_conf(written) == {"spark.a": "x=y", "spark.b": " z", "spark.c": ""}
    for wrong in ("spark.a", "=x", "  =x"):
        with pytest.raises(typer.BadParameter, match="is not KEY=VALUE"):
            spark_conf([wrong])
