"""Random joins and unions over tables that change: the rows that differ are those of affected leads, and no others."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.joined.parts import Joining
from airflow_backfill_provider.shapes.joined.query import check_joined_query
from airflow_backfill_provider.shapes.joined.resolved import resolve
from tests.joined_worlds import (
    RELATIONS,
    Writer,
    affected,
    bindings,
    both_images,
    by_unit,
    changed,
    name_of,
    run,
    tables,
)
from tests.variants import exhaustive

pytestmark = pytest.mark.slow  # many random histories

# Some mutants of faults/mutants/joins.py are found by the last two alone.
SEEDS = (*range(20), 37, 47)
MORE_SEEDS = [pytest.param(SEEDS, id="few"), exhaustive(range(20, 600), name="more")]


def resolved(text, lead=""):
    query = check_joined_query(text)
    read = {name.lower() for name in query.relations}
    return resolve(query, [relation for relation in RELATIONS if relation.name in read], lead)


def world(seed):
    rng = random.Random(seed)
    before = tables(rng)
    return rng, before, changed(rng, before)


def view(query, rows, leads=None):
    return run(query, bindings(query, rows, leads), query.render(name_of))


def differing(before, after):
    return {unit for unit in before.keys() | after.keys() if before.get(unit) != after.get(unit)}


def leads_of(query, before, after, images=both_images):
    return [affected(plan, before, after, images) for plan in query.affected]


def is_right(query, before, after, leads):
    """Return whether the view is right after the units of some leads are replaced by what the query gives for them."""
    unit = query.row_units.unit
    old, new = by_unit(view(query, before), unit), by_unit(view(query, after), unit)
    fresh = by_unit(view(query, after, leads), unit)
    replaced = {one for one in old if _key(query, one) in leads[_branch(query, one)]}
    return {**{one: rows for one, rows in old.items() if one not in replaced}, **fresh} == new


def _branch(query, unit):
    return unit[0] if query.row_units.branch else 0


def _key(query, unit):
    """Return the lead's key of a unit, in the order of its key."""
    branch = _branch(query, unit)
    columns = [column for column in query.row_units.columns if column.of_unit]
    values = unit[1:] if query.row_units.branch else unit
    found = [(column.sources[branch], value) for column, value in zip(columns, values, strict=True)]
    held = {source.column: value for source, value in found if source is not None}
    return tuple(held[column] for column in query.trees[branch].lead.key)


@pytest.mark.parametrize("kind", ["query", "union"])
@pytest.mark.parametrize("seeds", MORE_SEEDS)
def test_the_units_of_affected_leads_and_no_others_have_to_be_replaced(kind, seeds):
    """I1: random trees with self-joins, chains, fan-outs, semi and anti joins, steps before a join, and nulls."""
    for seed in seeds:
        rng, before, after = world(seed)
        text = getattr(Writer(rng), kind)()
        query = resolved(text)
        if query.query.is_distinct:
            continue
        leads = leads_of(query, before, after)
        assert is_right(query, before, after, leads), (seed, text, before, after)


@pytest.mark.parametrize("kind", ["query", "union"])
@pytest.mark.parametrize("seeds", MORE_SEEDS)
def test_the_columns_of_keys_identify_each_row(kind, seeds):
    """Lookups have one match at most, and the keys of fan-outs tell the rows of a unit apart."""
    for seed in seeds:
        rng, rows, _ = world(seed)
        query = resolved(getattr(Writer(rng), kind)())
        if query.query.is_distinct:
            continue
        found = by_unit(view(query, rows), query.row_units.row)
        assert all(sum(rows.values()) == 1 for rows in found.values()), seed


def test_another_lead_follows_changes_as_well():
    """A lead that the job chooses: the relations of inner joins hang on it instead."""
    chosen = 0
    for seed in SEEDS:
        rng, before, after = world(seed)
        text = Writer(rng).query()
        roles = [node.role for node in resolved(text).trees[0].nodes[1:] if node.how is Joining.INNER]
        for lead in roles[-1:]:
            with suppress(InvalidJobError):
                query = resolved(text, lead)
                chosen += 1
                assert is_right(query, before, after, leads_of(query, before, after)), (seed, text, lead)
    assert chosen > len(SEEDS) / 4


@pytest.mark.parametrize("kind", ["groups", "union"])
@pytest.mark.parametrize("seeds", MORE_SEEDS)
def test_only_touched_groups_differ(kind, seeds):
    """Groups over joins and unions, and DISTINCT: those of the affected rows before the window and after it."""
    for seed in seeds:
        rng, before, after = world(seed)
        text = getattr(Writer(rng, joins=3), kind)()
        query = resolved(text)
        if query.row_units is not None:
            continue
        leads = leads_of(query, before, after)
        columns = query.group_columns()
        names = [f"u{number}" for number in range(len(columns))]
        units = query.render_units(name_of, names)
        touched = {
            tuple(row.values()) for rows in (before, after) for row in run(query, bindings(query, rows, leads), units)
        }
        old, new = by_unit(view(query, before), columns), by_unit(view(query, after), columns)
        assert differing(old, new) <= touched, (seed, text)
        bound = bindings(query, after) | {"touched": (names, sorted(touched, key=repr))}
        fresh = by_unit(run(query, bound, query.render_slice(name_of, "touched", names)), columns)
        assert {**{one: rows for one, rows in old.items() if one not in touched}, **fresh} == new, (seed, text)


MUTANTS = {
    "only the new images of a dimension": lambda old, new: new,
    "only the old images of a dimension": lambda old, new: old,
    "no changes of a dimension": lambda old, new: (),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_tempting_variant_is_wrong_somewhere(mutant):
    """What holds the test above: several of its histories are such that the variant fails."""
    wrong = 0
    for seed in range(200):
        rng, before, after = world(seed)
        query = resolved(Writer(rng, joins=2).query())
        changed_leads = [
            {tuple(row[("id", "x", "y", "v").index(name)] for name in tree.lead.key) for row in images}
            for tree in query.trees
            for images in [set(before[tree.lead.relation]) ^ set(after[tree.lead.relation])]
        ]
        found = [
            one | two for one, two in zip(leads_of(query, before, after, MUTANTS[mutant]), changed_leads, strict=True)
        ]
        wrong += not is_right(query, before, after, found)
        if wrong == 3:
            return
    raise AssertionError(f"{wrong} of 200 histories find it")


@pytest.mark.parametrize("kind", ["groups", "union"])
@pytest.mark.parametrize("seeds", MORE_SEEDS)
def test_groups_gain_and_lose_what_affected_leads_were_and_are_joined_to(kind, seeds):
    """A fold adds the difference of two joins over the same leads, each as of one end of the window."""
    for seed in seeds:
        rng, before, after = world(seed)
        query = resolved(getattr(Writer(rng, joins=3), kind)())
        if query.row_units is not None:
            continue
        leads, names = leads_of(query, before, after), [f"u{number}" for number in range(len(query.group_columns()))]

        def rows(at, of=None, query=query, names=names):
            found = run(query, bindings(query, at, of), query.render_units(name_of, names))
            return Counter(tuple(row.values()) for row in found)

        moved = rows(before)
        moved.subtract(rows(before, leads))
        moved.update(rows(after, leads))
        assert +moved == rows(after), seed
        assert not -moved, seed
