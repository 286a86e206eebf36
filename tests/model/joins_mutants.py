"""
What is played of views over several upstreams: every kind, and schemes that look right and are not.

``python -m tests.model.joins_mutants [histories] [seed]`` prints how many histories went wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.model import groups_queries as groups
from tests.model import joins_catalog as joins
from tests.model.groups_job import Strategy
from tests.model.groups_mutants import BY_KEYS, BY_RUNS, BY_UNITS, ON_FINISH, WHOLE, WITHIN_UNITS
from tests.model.groups_queries import GroupQuery
from tests.model.histories import wrong
from tests.model.joins_affected import Tracing
from tests.model.joins_arranged import Arranging
from tests.model.joins_job import JoinProtocol
from tests.model.joins_queries import BY_LEAD, STAGES_2, JoinQuery
from tests.model.joins_runs import JoinsRun
from tests.model.joins_stage1 import Reading
from tests.model.truth import InvariantError


@dataclass(frozen=True, slots=True)
class Kind:
    """A query under a strategy."""

    stage_1: JoinQuery
    stage_2: GroupQuery
    strategy: Strategy
    doubled: tuple[str, ...] = ()
    """The tables that have a key twice now and then."""

    def __str__(self) -> str:
        doubled = f", {self.doubled[0]} twice" if self.doubled else ""
        return f"{self.stage_1.name}{doubled}, {self.stage_2.name}, {self.strategy}"

    def fault(self, seed: int | str, protocol: JoinProtocol | None = None) -> str | None:
        """Play one history; return what broke."""
        try:
            JoinsRun(seed, self.stage_1, self.stage_2, self.strategy, protocol, doubled=self.doubled).play()
        except InvariantError as error:
            return str(error)
        return None


def rows(*queries: JoinQuery, under: Iterable[Strategy] = (WHOLE,), doubled: tuple[str, ...] = ()) -> tuple[Kind, ...]:
    """Return kinds of views of lead rows."""
    return tuple(Kind(query, BY_LEAD, strategy, doubled) for strategy in under for query in queries)


def grouped(
    *queries: JoinQuery, by: Iterable[GroupQuery] = (groups.TOTALS,), under: Iterable[Strategy] = (WHOLE,)
) -> tuple[Kind, ...]:
    """Return kinds of views of groups."""
    return tuple(Kind(query, group, strategy) for strategy in under for group in by for query in queries)


_OF_KEYS = (BY_KEYS, BY_UNITS, BY_RUNS, ON_FINISH, WHOLE)
"""The history of lead rows: in key order, by vnode and key, and V0 by runs, by runs of parallel parts and at once."""
_OF_UNITS = (BY_UNITS, ON_FINISH, WHOLE, BY_KEYS, WITHIN_UNITS)
_WITH_UNITS = tuple(query for query in STAGES_2 if query is not groups.GLOBAL)

DOUBLED = (
    *rows(joins.TWO, joins.CODE, joins.ROLES, under=(WHOLE, BY_UNITS, BY_KEYS), doubled=("customers",)),
    *rows(joins.FAN, under=(WHOLE, BY_UNITS), doubled=("lines",)),
    *rows(joins.SEMI, joins.SEMI_AND_ANTI, under=(WHOLE, BY_KEYS), doubled=("customers",)),
)
"""Lookups and fan-outs whose key is there twice now and then; semi joins, which do not mind."""
KINDS = (
    *rows(*joins.ALL, under=_OF_KEYS),
    *grouped(*joins.ALL, by=_WITH_UNITS, under=_OF_UNITS),
    *grouped(*joins.ALL, by=(groups.GLOBAL,), under=(WHOLE, BY_KEYS)),
    *DOUBLED,
)
"""Every kind that has to be right."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A protocol that lacks a rule, and the kinds in which that shows."""

    protocol: JoinProtocol
    kinds: tuple[Kind, ...]


def _traced(**rules: Any) -> JoinProtocol:
    return JoinProtocol(tracing=Tracing(**rules))


def _read(**rules: Any) -> JoinProtocol:
    return JoinProtocol(reading=Reading(**rules))


def _arranged(**rules: Any) -> JoinProtocol:
    return JoinProtocol(arranging=Arranging(**rules))


_FOLDS = (groups.TOTALS, groups.DISTINCT)
_BOTH = (groups.TOTALS, groups.PERCENTILE)
_FANS = (joins.FAN, joins.TWO_FANS, joins.FAN_BELOW)
_TWICE = rows(joins.TWO, joins.ROLES, under=(WHOLE, BY_UNITS), doubled=("customers",))

MUTANTS = {
    # The affected leads.
    "changes of dimensions are ignored": Mutant(
        _traced(dimensions="none"), (*rows(joins.TWO, joins.ANTI), *grouped(joins.CHAIN_INNER, by=_FOLDS))
    ),
    "only the first dimension is followed": Mutant(
        _traced(dimensions="first"), rows(joins.TWO, joins.CHAIN, joins.TWO_FANS, under=(WHOLE, BY_KEYS))
    ),
    "semi and anti joins are not followed": Mutant(
        _traced(dimensions="those with columns"), rows(joins.SEMI, joins.ANTI, joins.SEMI_AND_ANTI, joins.NOT_IN)
    ),
    "a dimension of a dimension is not followed": Mutant(
        _traced(through="one hop"), rows(joins.CHAIN, joins.SEMI, joins.FAN, joins.STAFF, under=(WHOLE, BY_KEYS))
    ),
    "only new images of a dimension count": Mutant(
        _traced(images="newest"), rows(joins.TWO, joins.FAN, joins.CODE, joins.SEMI, joins.CHAIN, joins.FAN_BELOW)
    ),
    "only old images of a dimension count": Mutant(
        _traced(images="oldest"), rows(joins.TWO, joins.FAN, joins.CODE, joins.SEMI_AND_ANTI)
    ),
    "the value is the dimension's key": Mutant(
        _traced(value="the key"), rows(joins.CODE, joins.FAN, joins.ANTI, joins.FAN_BELOW)
    ),
    "a changed row counts if its new image meets the condition": Mutant(
        _traced(condition="of the new image"), rows(joins.SEMI, joins.ANTI)
    ),
    "a table counts in its role of the lead alone": Mutant(
        _traced(roles="the lead's"), rows(joins.STAFF, joins.NO_LARGER)
    ),
    "a window without changes of the lead is idle": Mutant(
        _traced(idle="the lead did not change"), (*rows(joins.TWO, joins.ANTI), *grouped(joins.FAN))
    ),
    "a key that was there twice is netted": Mutant(_traced(images="net"), _TWICE),
    # Dimensions without a feed.
    "a dimension without feed is compared by key": Mutant(
        _traced(without_feed="diff of keys"), rows(joins.TWO, joins.FAN, joins.TWO_PARENTS)
    ),
    "a dimension without feed is compared by equality": Mutant(
        _traced(without_feed="diff by equality"), rows(joins.TWO, joins.FAN)
    ),
    "a dimension without feed is its rows at the end": Mutant(
        _traced(without_feed="rows at the end"), rows(joins.TWO, joins.FAN)
    ),
    # The frame.
    "old rows are joined with new dimensions": Mutant(
        JoinProtocol(old_rows_join="dimensions at end"),
        grouped(joins.CHAIN, joins.FAN, joins.UNION, joins.TWO, by=(*_FOLDS, groups.PERCENTILE)),
    ),
    "new rows are joined with old dimensions": Mutant(
        JoinProtocol(new_rows_join="dimensions at start"), (*rows(joins.TWO, joins.FAN), *grouped(joins.CHAIN))
    ),
    "the last dimension is read at its newest": Mutant(
        JoinProtocol(new_rows_join="the newest of the last one"), rows(joins.TWO, joins.CHAIN, joins.FAN)
    ),
    "a chunk is joined with old dimensions": Mutant(
        JoinProtocol(chunk_joins="dimensions at start"),
        (*rows(joins.TWO, joins.CHAIN, joins.FAN, under=(BY_KEYS, BY_UNITS)), *grouped(joins.TWO, under=(BY_KEYS,))),
    ),
    "a chunk as of the window's start": Mutant(
        JoinProtocol(chunk_at="start"),
        (*rows(joins.TWO, joins.UNION, under=(BY_KEYS, BY_UNITS)), *grouped(joins.CHAIN, under=(BY_UNITS, BY_KEYS))),
    ),
    "a run of V0 is joined with dimensions of its own time": Mutant(
        JoinProtocol(base_joins="dimensions at end"), rows(joins.TWO, joins.FAN, under=(BY_RUNS, ON_FINISH))
    ),
    "waiting changes are those after the last window": Mutant(
        JoinProtocol(waiting_after="last window"),
        (*rows(joins.TWO, joins.UNION, under=(BY_RUNS, ON_FINISH)), *grouped(joins.CHAIN, under=(ON_FINISH,))),
    ),
    "changes by the new position": Mutant(
        JoinProtocol(filter_by="after"),
        (*rows(joins.TWO, joins.FAN, under=(BY_KEYS,)), *grouped(joins.CHAIN, joins.FAN, under=(BY_UNITS, BY_KEYS))),
    ),
    "the publishing epoch's changes by the old position": Mutant(
        JoinProtocol(filter_by="before"),
        (*rows(joins.TWO, joins.FAN, under=(ON_FINISH, BY_RUNS)), *grouped(joins.CHAIN, under=(ON_FINISH,))),
    ),
    "the last chunk ends where it was planned": Mutant(
        JoinProtocol(last_chunk="bounded"),
        (*rows(joins.TWO, joins.FAN, under=(BY_KEYS, BY_UNITS)), *grouped(joins.FAN, under=(BY_UNITS,))),
    ),
    "the number of parts is not pinned": Mutant(
        JoinProtocol(parts="not pinned"), (*rows(joins.TWO, under=(BY_UNITS,)), *grouped(joins.FAN, under=(BY_UNITS,)))
    ),
    # Windows.
    "each window ends at what its log has": Mutant(
        _read(windows="end at what each log has"), (*rows(joins.TWO, joins.UNION), *grouped(joins.CHAIN))
    ),
    "all windows end at the oldest newest commit": Mutant(
        _read(windows="end at the oldest newest commit"), rows(joins.TWO, joins.UNION)
    ),
    "a table has a window in each of its roles": Mutant(
        _read(windows="one of each role"), rows(joins.STAFF, joins.SAME_TABLE, joins.ROLES)
    ),
    # Units.
    "a lead without rows leaves no tombstone": Mutant(
        JoinProtocol(touched_by="new images"), rows(joins.TWO_INNER, joins.SEMI, joins.ANTI, joins.FAN_INNER)
    ),
    "a fan-out has one row of each lead": Mutant(
        _read(rows_of_a_lead="one"), (*rows(joins.FAN, joins.FAN_BELOW, joins.TWO_FANS), *grouped(joins.FAN))
    ),
    "a fan-out is replaced row by row": Mutant(
        JoinProtocol(replaced="rows by the view's key"), rows(joins.FAN, joins.FAN_BELOW, joins.TWO_FANS, joins.CODE)
    ),
    "a table has the same rows in each of its roles": Mutant(
        JoinProtocol(relations="bound by table"), rows(joins.STAFF, under=(WHOLE, BY_KEYS))
    ),
    "branches share their units": Mutant(_read(branches="one"), rows(joins.UNION, joins.SAME_TABLE)),
    "nulls match nulls": Mutant(_read(nulls="match nulls"), rows(joins.CODE, joins.TWO_COLUMNS)),
    "NOT IN over nullable columns as an anti join": Mutant(
        _read(negation="anti join"), rows(joins.NOT_IN_NULLABLE, under=(WHOLE, BY_KEYS))
    ),
    "NOT IN over nullable columns for affected leads": Mutant(
        JoinProtocol(), rows(joins.NOT_IN_NULLABLE, joins.NOT_IN_NULLABLE_LEAD)
    ),
    # Groups under an arrangement.
    "only changed leads are arranged": Mutant(
        JoinProtocol(arranged_changes="changed leads"),
        grouped(joins.CHAIN, joins.FAN, joins.SEMI, by=_BOTH, under=(BY_UNITS,)),
    ),
    "an arrangement has one row of each lead": Mutant(
        JoinProtocol(arranged_changes="one of each lead"),
        grouped(joins.FAN, joins.TWO_FANS, by=_BOTH, under=(BY_UNITS,)),
    ),
    "net per key without the vnode": Mutant(
        JoinProtocol(net_by="key"),
        grouped(joins.CHAIN, joins.FAN, by=(groups.TOTALS, groups.PERCENTILE), under=(BY_UNITS,)),
    ),
    "an arranged lead is known by its key alone": Mutant(
        _arranged(lead_is_known_by="key"), grouped(*_FANS, by=_BOTH, under=(BY_UNITS,))
    ),
    "a unit that a lead left keeps it": Mutant(
        _arranged(left_units="keep the lead"),
        grouped(joins.CHAIN, joins.UNION, joins.FAN, by=_BOTH, under=(BY_UNITS,)),
    ),
    "a lead that stays in its unit is not arranged again": Mutant(
        _arranged(stays="not arranged again"), grouped(joins.CHAIN, joins.TWO, by=_BOTH, under=(BY_UNITS,))
    ),
    "a lead in several units of a chunk is joined for each": Mutant(
        _arranged(in_several_units="joined for each"), grouped(*_FANS, by=_BOTH, under=(BY_UNITS, ON_FINISH))
    ),
    "a part of a chunk joins leads of all parts": Mutant(
        _arranged(chunk_joins="leads in units of all parts"),
        grouped(joins.CODE, joins.CHAIN, by=_BOTH, under=(BY_UNITS,)),
    ),
    "a chunk has all rows of its leads": Mutant(
        _arranged(chunk_has="all rows of its leads"), grouped(*_FANS, by=_BOTH, under=(BY_UNITS, ON_FINISH))
    ),
    "arranged leads are joined with old dimensions": Mutant(
        JoinProtocol(chunk_joins="dimensions at start"),
        grouped(joins.CHAIN, joins.FAN, joins.ANTI, by=_BOTH, under=(BY_UNITS,)),
    ),
    "arranged leads of V0 are joined with dimensions of the publishing epoch": Mutant(
        JoinProtocol(base_joins="dimensions at end"), grouped(joins.CHAIN, joins.FAN, by=_BOTH, under=(ON_FINISH,))
    ),
    "only read units are arranged": Mutant(
        JoinProtocol(arranged="read units"), grouped(joins.CHAIN, joins.UNION, under=(BY_UNITS,))
    ),
    "each run of leads is sliced alone": Mutant(
        JoinProtocol(cut_chunk="appended alone"),
        grouped(joins.CHAIN, joins.FAN, by=(groups.PERCENTILE,), under=(BY_RUNS,)),
    ),
    # Duplicates.
    "a dimension's key may be there twice": Mutant(JoinProtocol(duplicates="accepted"), _TWICE),
    "a dimension's key is looked for at the window's start": Mutant(
        JoinProtocol(duplicates="looked for at start"), _TWICE
    ),
    "each part looks for the keys of its own rows": Mutant(
        JoinProtocol(duplicates="refused by each part"), rows(joins.TWO, under=(BY_UNITS,), doubled=("customers",))
    ),
    "a refused epoch's window is over": Mutant(JoinProtocol(withdrawn="its window is over"), _TWICE),
    # Writes.
    "a merge without transaction id": Mutant(
        JoinProtocol(merge_has_txn=False), (*rows(joins.TWO, joins.FAN), *grouped(joins.CHAIN))
    ),
    "the state is not fenced": Mutant(JoinProtocol(state_fenced=False), rows(joins.TWO, joins.FAN)),
    "a repair is a commit of its own": Mutant(JoinProtocol(repair="second commit"), rows(joins.TWO, joins.FAN)),
}

HARMLESS = {
    # Rows that did not change are the same at both ends, and changed ones are found by themselves.
    "affected rows are looked up at the window's start": Mutant(
        _traced(found_at="start"), (*rows(*joins.ALL, under=(WHOLE, BY_KEYS)), *grouped(*joins.ALL))
    ),
    # It touches more leads, and no fewer.
    "leads are found by one of several join columns": Mutant(
        _traced(value="one join column"), rows(joins.TWO_COLUMNS, joins.TWO_PARENTS, joins.ANTI, under=(WHOLE, BY_KEYS))
    ),
    # What lies in the middle of the window touches more leads, and no fewer.
    "only the images at both ends count": Mutant(
        _traced(images="both ends"), (*rows(*joins.ALL, under=(WHOLE, BY_KEYS)), *DOUBLED)
    ),
    # The window before ended without a key that is there twice, and every change of a key is in the feed.
    "a dimension's key is looked for among changed keys": Mutant(
        JoinProtocol(duplicates="looked for among changed keys"), DOUBLED
    ),
    # What stays is there already, and says the same.
    "a lead that stays in its unit is always arranged again": Mutant(
        _arranged(stays="always arranged again"), grouped(*joins.ALL, by=_BOTH, under=(BY_UNITS, ON_FINISH))
    ),
    # Chunks need no join then, and the arrangement has more columns.
    "the joined rows are arranged": Mutant(
        _arranged(of="joined rows"), grouped(*joins.ALL, by=_BOTH, under=(BY_UNITS, ON_FINISH))
    ),
    "images are netted, where keys are unique": Mutant(
        _traced(images="net"), (*rows(*joins.ALL, under=(WHOLE, BY_KEYS)), *grouped(*joins.ALL))
    ),
}
"""Protocols that look weaker and are right all the same. They say what a rule is for, and what it is not for."""


def main(histories: int = 100, seed: int = 0) -> None:
    """Print how many histories go wrong: of the protocol in every kind, and of each mutant in its kinds."""
    seeds = range(seed, seed + histories)
    for kind in KINDS:
        print(f"{'':60} {kind!s:50} {wrong(kind, seeds):6,} wrong of {histories:,}", flush=True)
    for name, mutant in (*MUTANTS.items(), *HARMLESS.items()):
        for kind in mutant.kinds:
            print(f"{name:60} {kind!s:50} {wrong(kind, seeds, mutant.protocol):6,} wrong of {histories:,}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
