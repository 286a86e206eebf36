"""
What a campaign is: numbered cases, each of which a seed alone decides, and each of which ends in one of few ways.

A case ends **right**, equal to a truth that was worked out independently; or **refused** by a named error of this
package, the state unharmed, which the case shows by going on to a right end. Anything else is wrong: a difference, an
error of some library, no end.
"""

from __future__ import annotations

import atexit
import itertools
import json
import random
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
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
    """The product did something wrong."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    How a case ended.

    :param result: ``right``, the name of the error that refused it, or ``WRONG``.
    :param checks: how many things it compared: states, keys, names, epochs.
    :param about: what the case was about, for people.
    """

    result: str = RIGHT
    checks: int = 1
    about: str = ""


Played = tuple[int, Outcome, float]
"""A case, how it ended, and after how many seconds."""

Line = dict[str, Any]
"""A case that was played, as a file has it: seed, number, seconds, and the outcome's fields."""

Play = Callable[[int, random.Random], Outcome]
"""Plays a case: gets its number, and its own source of chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """
    One kind of faults.

    :param name: what it is called on the command line.
    :param about: what its cases are, in a sentence.
    :param quick: how many cases a quick run has.
    :param full: how many a full one has.
    :param checks: what a check is: a state of the search, a pair of keys.
    :param stage: makes what the cases need, such as Spark.
    :param processes: how many processes play cases side by side, each on a stage of its own.
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
    What a run of a campaign came to.

    :param seconds: those of its cases, whether they ran side by side or not.
    :param results: how many cases ended in which way.
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
        """How many cases went wrong."""
        return self.results[WRONG]


def chance(campaign: str, seed: int, case: int) -> random.Random:
    """Return a case's own source of chance."""
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

    :param before: cases of an earlier run that stay in the file, and are counted, too.
    :param until: when to stop, by the monotonic clock; a case that was begun is played to its end.
    """
    tally = Tally(campaign.name, seed)
    RESULTS.mkdir(exist_ok=True)
    # The file is begun anew once the stage stands: what it has is not lost to a Spark that does not start.
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
    """Return the cases that the newest run of a campaign left, if it was of this seed."""
    return [line for line in _lines(_file(campaign)) if line["seed"] == seed]


def tallies() -> Iterator[Tally]:
    """Return what the newest run of each campaign came to."""
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
    # The last line of a run that was killed may be cut off.
    whole = [line for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
    return [json.loads(line) for line in whole]


def _in_time(cases: Iterable[int], until: float | None) -> Iterator[int]:
    """Yield cases while there is time."""
    return itertools.takewhile(lambda _: until is None or time.monotonic() < until, cases)


@contextmanager
def _players(campaign: Campaign, seed: int) -> Iterator[Callable[[Iterator[int]], Iterator[Played]]]:
    """Open the stage, or one for each process, and return what plays cases there."""
    if campaign.processes == 1:
        with campaign.stage() as play:
            yield partial(map, partial(_played, play, campaign.name, seed))
        return
    with ProcessPoolExecutor(
        campaign.processes, mp_context=get_context("spawn"), initializer=_enter, initargs=(campaign.name,)
    ) as processes:
        yield partial(_side_by_side, processes, partial(_played_there, campaign.name, seed), 4 * campaign.processes)


def _side_by_side(
    processes: ProcessPoolExecutor, play: Callable[[int], Played], ahead: int, cases: Iterator[int]
) -> Iterator[Played]:
    """Let processes play cases, with no more of them handed out than keep all busy."""
    handed_out = deque(processes.submit(play, case) for case in itertools.islice(cases, ahead))
    while handed_out:
        yield handed_out.popleft().result()
        handed_out.extend(processes.submit(play, case) for case in itertools.islice(cases, 1))


_stages = ExitStack()
_player: list[Play] = []


def _enter(name: str) -> None:
    """Open a process's own stage, for as long as it lives."""
    campaign: Campaign = import_module(f"faults.{name.replace('-', '_')}").CAMPAIGN
    _player.append(_stages.enter_context(campaign.stage()))
    atexit.register(_stages.close)


def _played_there(name: str, seed: int, case: int) -> Played:
    return _played(_player[0], name, seed, case)


def _played(play: Play, name: str, seed: int, case: int) -> Played:
    began = time.monotonic()
    try:
        outcome = play(case, chance(name, seed, case))
    except Exception:  # noqa: BLE001 - whatever it is, a case must not end so
        outcome = Outcome(WRONG, about=traceback.format_exc(limit=-6))
    return case, outcome, time.monotonic() - began
