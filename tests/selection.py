"""Which files of tests a run imports, in which order it plays them, and which of them one process plays."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SLOW_RUNS = frozenset({"slow and not exhaustive", "exhaustive", "smoke"})
"""The expressions of markers with which `make` asks for slow tests alone."""

_WHOLLY_SLOW = re.compile(r"^pytestmark = \[?pytest\.mark\.(?:slow|spark|airflow|exhaustive)\b", re.MULTILINE)
_PARTLY_SLOW = re.compile(r"\bmark\.(?:slow|spark|airflow|exhaustive|smoke)\b|exhaustive\w*\(")

LONG = 10
"""From so many seconds on, it matters when a file is played."""

WITH_A_SERVER = frozenset(
    f"tests/integration/{name}" for name in ("airflow", "kafka", "object_store", "postgres", "s3")
)
"""Folders whose tests share a server, which each process starts for itself."""


def has_nothing_to_play(file: Path, markers: str) -> bool:
    """
    Return whether a run can leave out a file of tests without importing it: importing all takes 20 seconds.

    :param markers: the expression of markers that the run asks for.
    """
    if file.suffix != ".py" or not file.name.startswith("test_"):
        return False
    if markers == "not slow":
        return _WHOLLY_SLOW.search(file.read_text(encoding="utf-8")) is not None
    return markers in SLOW_RUNS and not says_that_tests_are_slow(file)


@cache
def says_that_tests_are_slow(file: Path) -> bool:
    """Return whether the text of a file marks any test as slow; runs of slow tests look only into those that do."""
    return _PARTLY_SLOW.search(file.read_text(encoding="utf-8")) is not None


def unit_of(test: str) -> str:
    """
    Return what one process plays as a whole: the file of a test, or the folder whose tests share a server.

    :param test: the test's id.
    """
    file = test.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if folder in WITH_A_SERVER else file


def seconds_of_units(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return how long each unit took, given how long each file did."""
    took: defaultdict[str, float] = defaultdict(float)
    for file, value in seconds.items():
        took[unit_of(file)] += value
    return dict(took)


def rank(test: str, seconds: Mapping[str, float]) -> float:
    """
    Return where a test belongs: the longest units first, so that no process plays one while others have nothing to do.

    Other units, and tests of one unit, stay in the order in which they are.

    :param test: the test's id.
    :param seconds: how long units took.
    """
    took = seconds.get(unit_of(test), 0.0)
    return -took if took >= LONG else 0.0
