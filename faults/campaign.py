"""
A campaign: numbered cases, each determined by a seed.

A case ends **right**, equal to an independently computed truth, or **refused** by a named error of this package. After
a refusal the job must be unharmed, so the case continues to a right end. Anything else is wrong: a difference, an error
of a library, no end.
"""

from __future__ import annotations

import atexit
import itertools
import json
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console

RESULTS = Path(".faults")
RIGHT = "right"
WRONG = "WRONG"


class WrongError(AssertionError):
    """The package did something wrong."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    The outcome of a case.

    :param result: ``right``, the name of the error that refused it, or ``WRONG``.
    :param checks: the number of comparisons: of states, keys, names or epochs.
    :param about: a description of the case for people.
    """

    result: str = RIGHT
    checks: int = 1
    about: str = ""


Played = tuple[int, Outcome, float]
"""A case, its outcome, and its seconds."""

Line = dict[str, Any]
"""A played case in a file: seed, number, seconds, and the outcome's fields."""

Play = Callable[[int, random.Random], Outcome]
"""Plays a case, given its number and its random generator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """
    One kind of faults.

    :param name: the name on the command line.
    :param about: a description of the cases, in a sentence.
    :param quick: the number of cases of a quick run.
    :param full: the number of cases of a full run.
    :param checks: the kind of check, such as states of the search or pairs of keys.
    :param stage: makes the requirements of the cases, such as Spark.
    :param processes: the number of processes that play cases in parallel, each on a separate stage.
    """

    name: str
    about: str
    quick: int
    full: int
    checks: str
    stage: Callable[[], AbstractContextManager[Play]]
    processes: int = 1


@dataclass(slots=True)
class Tally:
    """
    The totals of a run of a campaign.

    :param seconds: the sum over all cases, even if they ran in parallel.
    :param results: the number of cases by result.
    """

    campaign: str
    seed: int
    cases: int = 0
    checks: int = 0
    seconds: float = 0.0
    results: Counter[str] = field(default_factory=Counter)

    def add(self, line: Line) -> None:
        """Count a case."""
        self.cases += 1
        self.checks += line["checks"]
        self.seconds += line["seconds"]
        self.results[line["result"]] += 1

    @property
    def wrong(self) -> int:
        """The number of wrong cases."""
        return self.results[WRONG]


def chance(campaign: str, seed: int, case: int) -> random.Random:
    """Return the random generator of a case."""
    return random.Random(f"{campaign}/{seed}/{case}")


def run(
    campaign: Campaign,
    *,
    seed: int,
    cases: Iterable[int],
    console: Console,
    before: Sequence[Line] = (),
    until: float | None = None,
) -> Tally:
    """
    Play cases, and write each one's outcome to a file.

    :param before: cases of an earlier run, which stay in the file and are counted.
    :param until: when to stop, by the monotonic clock; a case that has begun is played to its end.
    """
    tally = Tally(campaign.name, seed)
    RESULTS.mkdir(exist_ok=True)
    # The file is overwritten only once the stage is ready, so that its content survives if Spark does not start.
    with _players(campaign, seed) as play_all, _file(campaign.name).open("w", encoding="utf-8") as file:

        def write(line: Line) -> None:
            tally.add(line)
            file.write(json.dumps(line, ensure_ascii=True) + "\n")
            file.flush()

        for line in before:
            write(line)
        for case, outcome, seconds in play_all(_in_time(cases, until)):
            write({"seed": seed, "case": case, **asdict(outcome), "seconds": round(seconds, 3)})
            if outcome.result == WRONG:
                console.print(f"{campaign.name} --seed {seed} --case {case}: {outcome.about}", markup=False)
    return tally


def played(campaign: str, seed: int) -> list[Line]:
    """Return the cases of the newest run of a campaign, if it had this seed."""
    return [line for line in _lines(_file(campaign)) if line["seed"] == seed]


def tallies() -> Iterator[Tally]:
    """Return the totals of the newest run of each campaign."""
    for file in sorted(RESULTS.glob("*.jsonl")):
        lines = _lines(file)
        if lines:
            tally = Tally(file.stem, lines[0]["seed"])
            for line in lines:
                tally.add(line)
            yield tally


def _file(campaign: str) -> Path:
    return RESULTS / f"{campaign}.jsonl"


def _lines(file: Path) -> list[Line]:
    if not file.exists():
        return []
    # The last line of a killed run may be cut off.
    whole = [line for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
    return [json.loads(line) for line in whole]


def _in_time(cases: Iterable[int], until: float | None) -> Iterator[int]:
    """Yield cases while there is time."""
    return itertools.takewhile(lambda _: until is None or time.monotonic() < until, cases)


@contextmanager
def _players(campaign: Campaign, seed: int) -> Iterator[Callable[[Iterator[int]], Iterator[Played]]]:
    """Open the stage, or one for each process, and return a function that plays cases there."""
    if campaign.processes == 1:
        with campaign.stage() as play:
            yield partial(map, partial(_played, play, campaign.name, seed))
        return
    with ProcessPoolExecutor(
        campaign.processes, mp_context=get_context("spawn"), initializer=_enter, initargs=(campaign.name,)
    ) as processes:
        yield partial(_side_by_side, processes, partial(_played_there, campaign.name, seed), 4 * campaign.processes)


def _side_by_side(
    processes: ProcessPoolExecutor, play: Callable[[int], Played], most: int, cases: Iterator[int]
) -> Iterator[Played]:
    """
    Let processes play cases, and yield these as they end.

    :param most: how many cases are handed out at a time; enough to keep all processes busy.
    """
    handed_out = {processes.submit(play, case) for case in itertools.islice(cases, most)}
    while handed_out:
        ended, handed_out = wait(handed_out, return_when=FIRST_COMPLETED)
        handed_out |= {processes.submit(play, case) for case in itertools.islice(cases, len(ended))}
        yield from (future.result() for future in ended)


_stages = ExitStack()
_player: list[Play] = []


def _enter(name: str) -> None:
    """Open the stage of this process, until the process ends."""
    campaign: Campaign = import_module(f"faults.{name.replace('-', '_')}").CAMPAIGN
    _player.append(_stages.enter_context(campaign.stage()))
    atexit.register(_stages.close)


def _played_there(name: str, seed: int, case: int) -> Played:
    return _played(_player[0], name, seed, case)


def _played(play: Play, name: str, seed: int, case: int) -> Played:
    began = time.monotonic()
    try:
        outcome = play(case, chance(name, seed, case))
    except Exception:  # noqa: BLE001 - any other error is a wrong end
        outcome = Outcome(WRONG, about=traceback.format_exc(limit=-6))
    return case, outcome, time.monotonic() - began
