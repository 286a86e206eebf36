"""
How long each file of tests took: ``pytest --record-seconds`` writes it down, ``python -m tests.seconds`` checks it.

The check reads only what was recorded, so it gives the same answer on every machine and at every load.

The seconds are those of the clock. Seconds of a processor would not depend on what else the machine does, but they
cannot be said of a file: all processes of a run share one JVM, which works for several files at once. Its compilers
take nearly half of what it needs at first, whatever file is played then. And some files wait more than they work, so
the order of the files and the time of a run depend on the clock.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("seconds.json")
"""
What `make test-slow ARGS=--record-seconds` wrote, on a machine with nothing else to do.

The present record is scaled, by what the files with the same tests took in the record before, on a faster machine.
"""

MINUTE = 60.0
OF_A_FILE = MINUTE
"""What a file may take, if it has no budget of its own."""
OF_ALL = 38 * MINUTE
"""What all files together may take. Three processes play them, so `make test-slow` takes a third of it."""
LARGER: Mapping[str, float] = {
    "tests/integration/airflow/test_dags.py": 1.5 * MINUTE,  # the example DAGs, from creation to cancellation
    "tests/integration/engine/test_epochs.py": 1.75 * MINUTE,  # what every strategy does, from the first epoch on
    "tests/integration/engine/test_unions.py": 1.75 * MINUTE,  # the history and the changes of several leads
}
_WORTH_A_LINE = 1.0


def recorded(file: Path = FILE) -> dict[str, float]:
    """Return the seconds of each file of tests that was recorded."""
    if not file.exists():
        return {}
    seconds: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
    return seconds


def record(took: Mapping[str, float], file: Path = FILE) -> None:
    """Replace the seconds of the files that were played. What takes less than a second is not worth a line."""
    seconds = recorded(file) | {name: round(value, 1) for name, value in took.items()}
    kept = {name: value for name, value in sorted(seconds.items()) if value >= _WORTH_A_LINE}
    file.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")


def over_budget(seconds: Mapping[str, float], root: Path) -> list[str]:
    """Return what is wrong with a record, a sentence each."""
    faults = [
        f"{name} took {took:.0f} s, and its budget is {budget:.0f} s: make it faster, or variants exhaustive"
        for name, took in seconds.items()
        if took > (budget := LARGER.get(name, OF_A_FILE))
    ]
    faults += [
        f"{name} is recorded, but does not exist: take out its line" for name in seconds if not (root / name).exists()
    ]
    if (total := sum(seconds.values())) > OF_ALL:
        faults.append(f"all files took {total:.0f} s, and their budget is {OF_ALL:.0f} s")
    return faults


class Recorder:
    """A plugin of pytest that adds up what the tests of each file take, in whatever process they run."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._took: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a test, its set-up or its end took."""
        self._took[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        record(self._took, self._file)


def main() -> int:
    """Check the record."""
    faults = over_budget(recorded(), FILE.parents[1])
    for fault in faults:
        sys.stderr.write(f"{FILE.name}: {fault}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
