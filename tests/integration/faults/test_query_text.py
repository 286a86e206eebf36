"""The campaign of texts of queries, against Spark's own lexer and parser: a case ends right, and a hole is found."""

from __future__ import annotations

import random
import re

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.job import spark_tokens
from airflow_backfill_provider.spark.session import prepare_session
from faults.campaign import WrongError
from faults.query_text import Judge, play

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def judge(spark: SparkSession) -> Judge:
    return Judge(prepare_session(spark.newSession()))


def test_what_is_accepted_is_what_spark_reads(judge: Judge) -> None:
    assert play(judge, random.Random(7)).checks == 200


def test_a_comment_that_ends_elsewhere_is_found(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backslash at a comment's end goes unseen if the comment takes the line's end in, too."""
    monkeypatch.setattr(spark_tokens, "_LINE_COMMENT", re.compile(r"--[^\r\n]*\r?\n?"))
    with pytest.raises(WrongError, match="Spark has the tokens"):
        [play(judge, random.Random(seed)) for seed in range(20)]
