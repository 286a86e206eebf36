"""
How an epoch's windows are pinned: one for each upstream, all ending at one instant T.

A commit has a stamp, and others see it from its **arrival** on. T is the injector's clock, read **before** the logs,
and never before the last T. Each window ends at the last commit at or before T, and never before its own start. So a
table that rests for long holds nobody back, and a commit that arrives late is in the next window.

While waiting changes are replayed, windows are bounded. The bound picks an earlier T, and never an end of one window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal

from tests.model.truth import InvariantError

LENGTH = 24


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit in a log. Its version is its number in the log, plus one."""

    stamp: int
    arrival: int


Log = list[Commit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """The rules; each default is what keeps an invariant."""

    end: Literal["last at or before T", "newest", "last before the oldest newest"] = "last at or before T"
    clock: Literal["before the logs", "after the logs"] = "before the logs"
    start: Literal["where the last window ended", "at the last T"] = "where the last window ended"
    bound: Literal["picks T", "of each log"] = "picks T"
    goes_back: Literal["never", "with a slow clock"] = "never"


@dataclass(frozen=True, slots=True)
class PinnedWindows:
    """Histories of pinned windows."""

    def fault(self, seed: int, protocol: Pinning | None = None) -> str | None:
        """Play one history; return what broke."""
        try:
            play_windows(seed, protocol)
        except InvariantError as error:
            return str(error)
        return None


@dataclass(frozen=True, slots=True)
class Windows:
    """What a barrier pins: T, and of each upstream the versions between which its window lies."""

    instant: int
    starts: Mapping[str, int]
    ends: Mapping[str, int]


def some_logs(random: Random) -> dict[str, Log]:
    """Return logs of three tables. One may rest for long, and some commits arrive after their stamp."""
    logs: dict[str, Log] = {name: [] for name in ("orders", "customers", "countries")}
    resting = random.choice(["customers", "countries", None])
    for instant in range(1, LENGTH + 1):
        for name, log in logs.items():
            if random.random() < 0.4 and (name != resting or instant == 2):
                arrival = instant + random.choice((0, 0, 0, 2))
                log.append(Commit(instant, max([arrival, *(commit.arrival for commit in log)])))
    return logs


def pin(
    logs: Mapping[str, Log], last: Windows, now: int, clock: int, pinning: Pinning, *, most: int | None = None
) -> Windows:
    """Pin windows of so many commits: the clock is read at ``now``, and one log after the other behind it."""
    moments = {name: now + n for n, name in enumerate(sorted(logs), 1)}
    seen = {name: [commit for commit in log if commit.arrival <= moments[name]] for name, log in logs.items()}
    instant = clock if pinning.clock == "before the logs" else clock + len(logs) + 1
    if pinning.goes_back == "never":
        instant = max(instant, last.instant)
    if most is not None and pinning.bound == "picks T":
        behind = sorted(commit.stamp for name, log in seen.items() for commit in log[last.ends[name] :])
        instant = min([instant, *(max(stamp, last.instant) for stamp in behind[most - 1 :][:1])])
    if pinning.end == "last before the oldest newest":
        instant = min(instant, *(max((commit.stamp for commit in log), default=0) for log in seen.values()))
    ends = {}
    for name, log in seen.items():
        end = sum(commit.stamp <= instant or pinning.end == "newest" for commit in log)
        if most is not None and pinning.bound == "of each log":
            end = min(end, last.ends[name] + most)
        ends[name] = max(end, last.ends[name]) if pinning.goes_back == "never" else end
    starts = dict(last.ends)
    if pinning.start == "at the last T":  # a commit that arrived late lies before it
        starts = {name: sum(commit.stamp <= last.instant for commit in log) for name, log in seen.items()}
    return Windows(instant, starts, ends)


def play_windows(seed: int, pinning: Pinning | None = None) -> None:
    """Pin barrier after barrier. Clocks of several injectors differ a little."""
    random = Random(f"{seed}/windows")
    logs, pinning = some_logs(random), pinning or Pinning()
    last = Windows(0, dict.fromkeys(logs, 0), dict.fromkeys(logs, 0))
    now = 1
    while now <= LENGTH:
        most = random.choice((None, None, 1, 3))
        windows = pin(logs, last, now, now - random.choice((0, 0, 0, 3)), pinning, most=most)
        _check(logs, last, windows)
        last, now = windows, now + random.randint(1, 5)
    last = pin(logs, last, LENGTH + 5, LENGTH + 5, pinning)
    if last.ends != {name: len(log) for name, log in logs.items()}:
        raise InvariantError(f"I4 progress: windows end at {dict(last.ends)} and everybody rests")


def _check(logs: Mapping[str, Log], last: Windows, windows: Windows) -> None:
    """All windows end at T, and neither T nor an end goes back."""
    if windows.instant < last.instant or any(end < last.ends[name] for name, end in windows.ends.items()):
        raise InvariantError(f"I3 monotonic: {last} went back to {windows}")
    if windows.starts != last.ends:
        raise InvariantError(f"I1 truth: windows start at {windows.starts}, and the last ones ended at {last.ends}")
    for name, end in windows.ends.items():
        log = logs[name]
        if any(commit.stamp > windows.instant for commit in log[:end]):
            raise InvariantError(f"I1 truth: the window of {name} ends after {windows.instant}")
        if any(max(commit.arrival, commit.stamp) <= windows.instant for commit in log[end:]):
            raise InvariantError(f"I1 truth: the window of {name} ends before {windows.instant}")


MUTANTS = {
    "each window ends at its log's newest commit": Pinning(end="newest"),
    "all windows end at the oldest newest commit": Pinning(end="last before the oldest newest"),
    "the clock is read after the logs": Pinning(clock="after the logs"),
    "a window starts at the last T": Pinning(start="at the last T"),
    "each window has a share of its own log": Pinning(bound="of each log"),
    "a slow clock moves windows back": Pinning(goes_back="with a slow clock"),
}
