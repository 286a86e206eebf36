"""
Options of a reader on Spark that hold secrets.

A Spark Connect server writes each request into its event log and its pages, with all options, and by default hides none
of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.sql import SparkSession

_REDACTION = "spark.sql.redaction.string.regex"


def hide_options(spark: SparkSession, names: Iterable[str]) -> None:
    """Let a Spark Connect server hide the values of options in the requests that it shows."""
    hidden = spark.conf.get(_REDACTION, "") or ""
    missing = [pattern for pattern in map(pattern_of, sorted(names)) if pattern not in hidden]
    if missing:
        spark.conf.set(_REDACTION, "|".join([*([hidden] if hidden else []), *missing]))


def pattern_of(name: str) -> str:
    """Return a pattern of an option with its value, as the server writes a request."""
    return rf'key: "{re.escape(name)}"\s+value: "(?:[^"\\]|\\.)*+"'
