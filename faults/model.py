"""
The protocol's model in plain Python: every interleaving of overlapping attempts, breadth first.

Each case has a different upstream, with two more versions to come, and three attempts with different settings. In the
last cases task runs share epochs of an arrangement, or read a database that shows its present rows only. A case
searches all interleavings. Cases of views of groups and of views over several upstreams play random histories. The
first cases are negative controls: a protocol without one of its rules must be caught.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from contextlib import nullcontext

from faults.campaign import Campaign, Outcome, WrongError
from tests.model import joins_catalog, joins_mutants, joins_windows
from tests.model.arranged_explore import MIXED, SHARED_EPOCHS, WHOLE_EPOCHS, explore_arranged
from tests.model.arranged_job import Protocol as ArrangedProtocol
from tests.model.cdc_attempts import POINTS
from tests.model.cdc_explore import APART, IN_SEQUENCE, ONE_WRITE, OVERLAPPING, explore_cdc
from tests.model.cdc_job import Protocol as CdcProtocol
from tests.model.explore import Result, explore
from tests.model.groups_mutants import KINDS, MUTANTS
from tests.model.histories import play_histories
from tests.model.joins_frontiers import DIAMONDS, MEETINGS, Diamond
from tests.model.joins_windows import PinnedWindows
from tests.model.orchestrated import Protocol
from tests.model.test_cdc_interleavings import WEAKENED as WEAKENED_CDC
from tests.model.test_interleavings import ORDERS, RETRIES
from tests.strategies import Barrier, Delete, Insert, Key, KeyColumn, Operation, Row, Scenario, Update, Write

MOST_STATES = 3_000_000
ATTEMPTS = 3
SCENARIOS = 400
"""The number of upstreams of a full run, which together have more than ten million states."""
HISTORIES = 1_000
"""The number of histories of each kind of view of groups."""
JOINED_HISTORIES = 50
"""The number of histories of each kind of view over one query with several upstreams."""
DIAMOND_HISTORIES = 5_000
"""The number of histories of views that share roots, and of windows that are pinned."""
MOST_HISTORIES = 300
"""The number of histories that find each mistake."""

WEAKENED: dict[str, Callable[[], Result]] = {
    **{
        rule: lambda rule=rule: explore(RETRIES[rule][0], zombie="merge" in rule or "state" in rule)  # type: ignore[misc]
        for rule in RETRIES
    },
    **{order: lambda order=order: explore(ORDERS[order], attempts=1) for order in ORDERS},  # type: ignore[misc]
    **{
        rule: lambda search=search, protocol=protocol: search(protocol)  # type: ignore[misc]
        for rule, (protocol, search, _) in WEAKENED_CDC.items()
    },
    **{
        f"groups: {rule}": lambda mutant=mutant: play_histories(  # type: ignore[misc]
            mutant.kinds, range(MOST_HISTORIES), mutant.protocol
        )
        for rule, mutant in MUTANTS.items()
    },
    **{
        f"joins: {rule}": lambda mutant=mutant: play_histories(  # type: ignore[misc]
            mutant.kinds, range(MOST_HISTORIES), mutant.protocol
        )
        for rule, mutant in joins_mutants.MUTANTS.items()
    },
    **{
        f"windows: {rule}": lambda pinning=pinning: play_histories(  # type: ignore[misc]
            [PinnedWindows()], range(MOST_HISTORIES), pinning
        )
        for rule, pinning in joins_windows.MUTANTS.items()
    },
    **{
        f"diamonds: {rule}": lambda names=names, meeting=meeting: play_histories(  # type: ignore[misc]
            [Diamond(name) for name in names], range(MOST_HISTORIES), meeting
        )
        for rule, (meeting, names) in MEETINGS.items()
    },
}
"""Protocols without a rule, each with the search that has to find the damage."""

CDC: dict[str, Callable[[], Result]] = {
    "writes at any moment": lambda: explore_cdc(CdcProtocol(), IN_SEQUENCE),
    "independent writes at any moment": lambda: explore_cdc(CdcProtocol(), IN_SEQUENCE, history=APART),
    "two attempts that land and read ahead": lambda: explore_cdc(
        CdcProtocol(), OVERLAPPING, history=ONE_WRITE, max_states=MOST_STATES
    ),
    **{
        f"a zombie {point.replace('_', ' ')}": lambda point=point: explore_cdc(  # type: ignore[misc]
            CdcProtocol(), IN_SEQUENCE[:3], history=ONE_WRITE, zombie=point, max_states=MOST_STATES
        )
        for point in POINTS.values()
    },
}

ARRANGED: dict[str, Callable[[], Result]] = {
    "task runs of whole epochs": lambda: explore_arranged(ArrangedProtocol(), WHOLE_EPOCHS, max_states=MOST_STATES),
    "task runs that share epochs": lambda: explore_arranged(ArrangedProtocol(), SHARED_EPOCHS, max_states=MOST_STATES),
    "whole epochs and a part": lambda: explore_arranged(ArrangedProtocol(), MIXED, max_states=MOST_STATES),
    "a zombie before its changes": lambda: explore_arranged(
        ArrangedProtocol(), MIXED, zombie="before_changes_commit", max_states=MOST_STATES
    ),
    "a zombie before its arrangement": lambda: explore_arranged(
        ArrangedProtocol(), MIXED, zombie="before_arrangement_commit", max_states=MOST_STATES
    ),
}

PLAYED: dict[str, Callable[[range], Result]] = {
    **{
        str(kind): lambda seeds, kind=kind: play_histories([kind], seeds[:HISTORIES])  # type: ignore[misc]
        for kind in KINDS
    },
    **{
        f"joins: {query.name}": lambda seeds, query=query: play_histories(  # type: ignore[misc]
            [kind for kind in joins_mutants.KINDS if kind.stage_1 is query and not kind.doubled],
            seeds[:JOINED_HISTORIES],
        )
        for query in joins_catalog.ALL
    },
    "joins: keys that are there twice": lambda seeds: play_histories(joins_mutants.DOUBLED, seeds[:HISTORIES]),
    "windows": lambda seeds: play_histories([PinnedWindows()], seeds),
    **{
        f"diamonds: {name}": lambda seeds, name=name: play_histories([Diamond(name)], seeds)  # type: ignore[misc]
        for name in DIAMONDS
    },
}
"""Random histories, each kind with the seeds that it is given."""


def play(case: int, random: random.Random) -> Outcome:
    """Search one state space."""
    if case < len(WEAKENED):
        rule, search = [*WEAKENED.items()][case]
        return _caught(rule, search())
    case -= len(WEAKENED)
    if case >= SCENARIOS + len(ARRANGED) + len(CDC):
        kind, histories = [*PLAYED.items()][case - SCENARIOS - len(ARRANGED) - len(CDC)]
        first = random.randrange(10**9)
        return _unbroken(f"{kind}, seeds from {first}", histories(range(first, first + DIAMOND_HISTORIES)))
    if case >= SCENARIOS:
        name, search = [*ARRANGED.items(), *CDC.items()][case - SCENARIOS]
        return _unbroken(name, search())
    scenario, settings = a_scenario(random)
    result = explore(
        Protocol(),
        attempts=ATTEMPTS,
        zombie=bool(case % 2),
        max_states=MOST_STATES,
        upstream=scenario,
        settings=settings,
    )
    return _unbroken(f"{scenario} under {settings}", result)


def a_scenario(random: random.Random) -> tuple[Scenario, tuple[Barrier, ...]]:
    """Return an upstream with two more versions to come, and the settings that each attempt reads."""
    keys = random.sample(range(6), random.randint(2, 4))
    table: dict[Key, Row] = {(key,): Row((key,), random.choice(["paid", "paid", "open"]), key) for key in keys}
    initial = tuple(table.values())
    writes = []
    for _ in range(2):
        write = _a_write(random, dict(table))
        table = write.applied_to(table)
        writes.append(write)
    settings = tuple(
        Barrier(rate_limit=random.choice([1, 1, 2, 3, None, 0]), paused=random.random() < 0.1) for _ in range(ATTEMPTS)
    )
    return Scenario((KeyColumn("id"),), initial, tuple(writes)), settings


def _a_write(random: random.Random, table: Mapping[Key, Row]) -> Write:
    operations: list[Operation] = []
    taken = set(table)
    for key in random.sample([*table], min(len(table), random.randint(1, 3))):
        new: Key = (random.randrange(7),)
        if random.random() < 0.25:
            operations.append(Delete(key))
            continue
        if new in taken or random.random() < 0.5:
            new = key
        taken.add(new)
        operations.append(Update(key, Row(new, random.choice(["paid", "open"]), random.randrange(100))))
    free = [(key,) for key in range(7) if (key,) not in taken]
    if free and random.random() < 0.5:
        key = random.choice(free)
        operations.append(Insert(Row(key, "paid", random.randrange(100))))
    return Write(tuple(operations))


def _caught(rule: str, result: Result) -> Outcome:
    if result.error is None:
        raise WrongError(f"{rule}: no damage was found in {result.states} states")
    return Outcome("caught", checks=result.states, about=f"{rule}: {result.error}")


def _unbroken(about: str, result: Result) -> Outcome:
    if result.error is not None:
        raise WrongError(f"{about}: {result.error} after {' / '.join(result.trace)}")
    if not result.exhausted:
        raise WrongError(f"{about}: the search did not end within {result.states} states")
    return Outcome(checks=result.states, about=about)


CAMPAIGN = Campaign(
    name="model",
    about="every interleaving of three overlapping attempts in the protocol's model; weakened protocols must be caught",
    quick=len(WEAKENED) + 4,
    full=len(WEAKENED) + SCENARIOS + len(ARRANGED) + len(CDC) + len(PLAYED),
    checks="states",
    stage=lambda: nullcontext(play),
    processes=os.cpu_count() or 1,
)
