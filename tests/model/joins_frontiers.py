"""
Diamonds: views that share roots, and a view over them that must see each root at one version.

What a view has is a function of the versions of its roots, its **frontier**. Each epoch notes the instant up to which
it looked and its frontier, also an epoch that changed no row. A view over views reads of each upstream the newest epoch
such that all upstreams **agree on every root that they share**. A table is an upstream whose epochs are its versions:
one that is also below a view waits for that view, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.model.joins_meeting import Epochs, Frontier, Looked, Meeting, Side
from tests.model.truth import InvariantError

LENGTH = 16
Views = Mapping[str, tuple[str, ...]]
"""The upstreams of each view, in the order in which the views run. What is no view is a table."""
DIAMONDS: dict[str, Views] = {
    "one root": {"v1": ("a",), "v2": ("a",), "top": ("v1", "v2")},
    "two roots": {"v1": ("a", "b"), "v2": ("a", "b"), "top": ("v1", "v2")},
    "roots that overlap": {"v1": ("a", "b"), "v2": ("b", "c"), "top": ("v1", "v2")},
    "a ring of roots": {"v1": ("a", "b"), "v2": ("b", "c"), "v3": ("c", "a"), "top": ("v1", "v2", "v3")},
    "a view and its root": {"v1": ("a", "b"), "top": ("v1", "a")},
    "a view and a table": {"v1": ("a", "b"), "top": ("v1", "c")},
    "deep": {"v1": ("a",), "v2": ("v1", "b"), "v3": ("v2",), "top": ("v3", "v1", "b")},
}


class FrontiersRun:
    """One history: tables that commit, and the jobs of views, which share an instant but may miss their runs."""

    def __init__(self, seed: int, diamond: str, meeting: Meeting | None = None, *, arrives_late: bool = True) -> None:
        self.random = Random(f"{seed}/{diamond}")
        self.views, self.meeting = DIAMONDS[diamond], meeting or Meeting()
        tables = sorted({name for upstreams in self.views.values() for name in upstreams} - self.views.keys())
        self.commits = {name: self._commits(arrives_late=arrives_late) for name in tables}
        self.epochs: dict[str, list[Looked]] = {name: [] for name in self.views}
        self._touched = {(name, n) for name in self.views for n in range(LENGTH) if self.random.random() < 0.5}

    def play(self) -> None:
        """Play to the end, when all have seen the last commits."""
        for instant in range(1, LENGTH + 3):
            for name in self.views:
                if instant > LENGTH or self.random.random() < 0.6:
                    self._epoch(name, instant, instant + self.random.randint(0, 1))
        last = {name: len(commits) for name, commits in self.commits.items()}
        if not self.epochs["top"] or self.epochs["top"][-1].frontier != last:
            raise InvariantError(f"I4 progress: the view waits before {last}")

    def is_of_one_instant(self, looked: Looked) -> bool:
        """Return whether all roots were at these versions at some instant."""
        return any(
            looked.frontier == {root: self._version(root, instant, LENGTH) for root in looked.frontier}
            for instant in range(LENGTH + 1)
        )

    def _commits(self, *, arrives_late: bool) -> list[tuple[int, int]]:
        """Return stamps and arrivals."""
        stamps = [instant for instant in range(1, LENGTH + 1) if self.random.random() < 0.5]
        late = [stamp + self.random.choice((0, 0, 1)) * arrives_late for stamp in stamps]
        return [(stamp, max(late[: n + 1])) for n, stamp in enumerate(stamps)]

    def _version(self, table: str, instant: int, now: int) -> int:
        return sum(stamp <= instant and arrival <= now for stamp, arrival in self.commits[table])

    def _epoch(self, name: str, instant: int, now: int) -> None:
        upstreams, meeting = self.views[name], self.meeting
        views = [upstream for upstream in upstreams if upstream in self.views]
        if meeting.instant == "not after an upstream view's" and views:
            instant = min([instant, *(self._newest_instant(view) for view in views)])
        sides = [Side(self._side(upstream, instant, now), upstream in self.views) for upstream in upstreams]
        chosen = meeting.chosen(sides)
        if chosen is None:
            return  # it waits
        if meeting.instant == "one of all upstream views" and views:
            instant = max(looked.instant for looked in chosen)
        looked = self._looked(name, instant, chosen)
        before = self.epochs[name][-1:]
        if any(looked.frontier[root] < version for old in before for root, version in old.frontier.items()):
            raise InvariantError(f"I3 monotonic: {before} went back to {looked}")
        is_idle = bool(before) and self._rows(name, before[0]) == self._rows(name, looked)
        if meeting.logged == "every epoch" or not is_idle:
            self.epochs[name].append(looked)

    def _newest_instant(self, view: str) -> int:
        return self.epochs[view][-1].instant if self.epochs[view] else 0

    def _side(self, upstream: str, instant: int, now: int) -> Epochs:
        if upstream in self.views:
            return [looked for looked in self.epochs[upstream] if looked.instant <= instant]
        stamps = [0, *(stamp for stamp, _ in self.commits[upstream])]
        return [Looked(stamps[n], {upstream: n}) for n in range(self._version(upstream, instant, now) + 1)]

    def _looked(self, name: str, instant: int, chosen: Sequence[Looked]) -> Looked:
        frontier: dict[str, int] = {}
        for looked in chosen:
            for root, version in looked.frontier.items():
                if frontier.setdefault(root, version) != version:
                    raise InvariantError(f"I1 truth: {name} reads {root} at {version} and at {frontier[root]}")
        return Looked(instant, frontier)

    def _rows(self, name: str, looked: Looked) -> Frontier:
        """Return what the view has: of each root the last commit that changed rows of the view."""
        touched = {root: range(version) for root, version in looked.frontier.items()}
        return {
            root: max((n for n in numbers if (name, n) in self._touched), default=-1)
            for root, numbers in touched.items()
        }


@dataclass(frozen=True, slots=True)
class Diamond:
    """Histories of the views of a diamond."""

    name: str

    def fault(self, seed: int, protocol: Meeting | None = None) -> str | None:
        """Play one history; return what broke."""
        try:
            FrontiersRun(seed, self.name, protocol).play()
        except InvariantError as error:
            return str(error)
        return None


MEETINGS = {
    "each upstream at its newest epoch": (Meeting(sides="newest"), tuple(DIAMONDS)[:5]),
    "each upstream at or before the lesser frontier": (
        Meeting(sides="at or before the lesser frontier"),
        ("one root", "two roots", "roots that overlap", "a ring of roots"),
    ),
    "upstreams that agree on one of their roots": (
        Meeting(sides="agree on one root"),
        ("two roots", "roots that overlap", "a ring of roots"),
    ),
    "upstreams that looked up to one instant": (Meeting(sides="agree in the instant"), ("one root",)),
    "the oldest epochs that agree": (Meeting(sides="oldest that agree"), ("roots that overlap",)),
    "a table beside a view of it is read as of T": (Meeting(tables="stay at T"), ("a view and its root", "deep")),
    "epochs without rows leave no trace": (Meeting(logged="epochs with rows"), tuple(DIAMONDS)),
}
"""Rules that look right and are not, each with the diamonds in which that shows."""
