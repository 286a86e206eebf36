"""
What `make test-exhaustive` last found: ``pytest -m exhaustive --record-seconds`` writes it down, file by file.

``python -m tests.exhaustive_run --write`` makes the table in CONTRIBUTING.md from it, ``--check`` compares them.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Protocol

import pytest

from docs import generated

FILE = Path(__file__).with_suffix(".json")
PAGE = FILE.parents[1] / "CONTRIBUTING.md"
MARKERS = "exhaustive"
"""The expression of markers with which `make test-exhaustive` asks for its tests."""

_HEADER = ("folder", "files", "tests", "passed", "skipped", "failed", "not played", "minutes")


@dataclass(frozen=True)
class Played:
    """
    What became of some tests.

    :param tests: how many the run has found.
    :param passed: how many of them did what they say.
    :param skipped: how many said that they cannot run here.
    :param failed: how many failed, in their set-up or at their end, too.
    :param seconds: how long they took together, in whatever process.
    """

    tests: int = 0
    passed: int = 0
    skipped: int = 0
    failed: int = 0
    seconds: float = 0.0

    def __add__(self, other: Played) -> Played:
        return Played(
            self.tests + other.tests,
            self.passed + other.passed,
            self.skipped + other.skipped,
            self.failed + other.failed,
            self.seconds + other.seconds,
        )

    @property
    def not_played(self) -> int:
        """How many tests the run has found, but not come to."""
        return self.tests - self.passed - self.skipped - self.failed


def recorded(file: Path = FILE) -> dict[str, Played]:
    """Return what became of each file of tests."""
    if not file.exists():
        return {}
    return {name: Played(**fields) for name, fields in json.loads(file.read_text(encoding="utf-8")).items()}


def seconds(file: Path = FILE) -> dict[str, float]:
    """Return how long each file took."""
    return {name: played.seconds for name, played in recorded(file).items()}


def record(played: Mapping[str, Played], file: Path = FILE) -> None:
    """Replace the lines of the files that were played, and forget files that are gone."""
    root = file.parents[1]
    lines = [
        f"{json.dumps(name)}: {json.dumps(asdict(replace(found, seconds=round(found.seconds, 1))))}"
        for name, found in sorted((recorded(file) | dict(played)).items())
        if (root / name).exists()
    ]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


class Report(Protocol):
    """What pytest tells about the set-up, the call or the end of a test."""

    nodeid: str
    when: str | None
    outcome: str
    duration: float


class Recorder:
    """A plugin of pytest that writes down what became of each file's tests, in whatever process they ran."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._found: set[str] = set()
        self._ended: set[str] = set()
        self._outcomes: defaultdict[str, set[str]] = defaultdict(set)
        self._took: defaultdict[str, float] = defaultdict(float)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which tests this process will play, if it plays them itself."""
        self.found(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Note which tests the processes will share."""
        self.found(ids)

    def found(self, tests: Iterable[str]) -> None:
        """Note which tests there are."""
        self._found.update(tests)

    def pytest_runtest_logreport(self, report: Report) -> None:
        """Add what became of a test, its set-up or its end."""
        self._outcomes[report.nodeid].add(report.outcome)
        self._took[report.nodeid] += report.duration
        # A test whose process has died has no end.
        if report.when == "teardown" or report.outcome == "failed":
            self._ended.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        files: defaultdict[str, Played] = defaultdict(Played)
        for test in self._found | self._ended:
            outcomes = self._outcomes[test] if test in self._ended else set()
            files[test.partition("::")[0]] += _played(outcomes, self._took[test])
        record(files, self._file)


def table(files: Mapping[str, Played]) -> str:
    """Return the record as a table, a line for each folder."""
    folders: defaultdict[str, list[Played]] = defaultdict(list)
    for name, found in sorted(files.items()):
        folders[f"`{_folder(name)}`"].append(found)
    rows = [_row(folder, found) for folder, found in folders.items()]
    return generated.table(_HEADER, [*rows, _row("together", list(files.values()))])


def _played(outcomes: set[str], took: float) -> Played:
    """
    Return what became of one test.

    :param outcomes: those of its set-up, its call and its end; none, if it did not come to its end.
    """
    one = Played(tests=1, seconds=took)
    if "failed" in outcomes:
        return replace(one, failed=1)
    if "skipped" in outcomes:
        return replace(one, skipped=1)
    return replace(one, passed=1) if outcomes else one


def _folder(name: str) -> str:
    """Return the folder under which a file counts: integration tests by what they need, others by their kind."""
    parts = PurePosixPath(name).parts
    return "/".join(parts[: 3 if parts[1] == "integration" else 2])


def _row(name: str, files: list[Played]) -> tuple[object, ...]:
    found = sum(files, Played())
    counts = (found.tests, found.passed, found.skipped, found.failed, found.not_played)
    return (name, len(files), *(f"{count:,}" for count in counts), f"{found.seconds / 60:.1f}")


if __name__ == "__main__":
    sys.exit(generated.main([PAGE], {"exhaustive run": table(recorded())}))
