"""Secrets among a reader's options, as a Spark Connect server writes a request."""

from __future__ import annotations

import re

import pytest

from airflow_backfill_provider.sources.shared.hidden_options import hide_options, pattern_of

REDACTION = "spark.sql.redaction.string.regex"


class Session:
    """The configuration of a session."""

    def __init__(self, **conf: str) -> None:
        self.conf = self
        self.values = {name.replace("_", "."): value for name, value in conf.items()}

    def get(self, name: str, default: str) -> str:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.values[name] = value


def request(name: str, value: str) -> str:
    return f'options {{\n  key: "{name}"\n  value: "{value}"\n}}\noptions {{\n  key: "user"\n  value: "reader"\n}}'


@pytest.mark.parametrize("value", ["s3cret", r"s3cret \" s3cret", r"s3cret\\", "s3cret\\n s3cret", ""])
def test_a_value_is_hidden_whole_and_no_other(value):
    shown = re.sub(pattern_of("kafka.sasl.jaas.config"), "***", request("kafka.sasl.jaas.config", value))
    assert shown == 'options {\n  ***\n}\noptions {\n  key: "user"\n  value: "reader"\n}'


def test_a_name_is_taken_literally():
    assert re.search(pattern_of("a.b"), request("aXb", "x")) is None


def test_what_is_hidden_already_stays_hidden_and_is_not_repeated():
    spark = Session(spark_sql_redaction_string_regex="mine")
    for _ in range(2):
        hide_options(spark, ["b", "a"])
        hide_options(spark, ["a"])
    assert spark.values[REDACTION] == "|".join(["mine", pattern_of("a"), pattern_of("b")])


def test_without_a_pattern_there_is_none_that_matches_everything():
    spark = Session()
    hide_options(spark, ["a"])
    assert spark.values[REDACTION] == pattern_of("a")
