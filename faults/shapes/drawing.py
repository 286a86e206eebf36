"""Draw a case: everything but the rows' values, which follow from the case's seed when it is played."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from faults.shapes import names, values
from faults.shapes.case import Case, Column, Gap
from faults.shapes.features import Features, some_features
from faults.shapes.queries import a_query
from faults.shapes.settings import some_settings

WRITERS = {"delta-rs": 30, "log": 30, "spark": 26, "convert": 14}
"""The writers of upstreams, with their frequency."""

STATISTICS = {
    "log": (
        *("exact", "none", "empty", "counts", "bounds", "partial", "rounded", "narrow", "shifted", "fewer", "more"),
        *("no nulls", "all nulls", "garbage"),
    ),
    "convert": ("spark", "spark", "none"),
}
ODD_FILES = ("", "", "upper", "reordered")
CHANGES = ("append", "append", "update", "delete", "move", "swap", "mixture", "rewrite")

_MOST_KEY_COLUMNS = (1, 1, 1, 2, 2, 3)
_FEW_VALUES = frozenset({"boolean"})


def a_case(random: random.Random) -> Case:
    """Return a case."""
    writer = random.choices(*zip(*WRITERS.items(), strict=True))[0]
    mapping = random.choice(("", "", "", "name", "id")) if writer == "log" else ""
    features = some_features(random) if writer == "spark" else Features(mapped=bool(mapping))
    columns, key = _columns(random, writer, features, nested=not mapping)
    if writer == "spark":
        columns, features = features.applied(random, columns, key)
    elif random.random() < 0.2:
        # Delta converts text partitions differently than it reads them: nulls become __HIVE_DEFAULT_PARTITION__.
        types = values.PARTITION_TYPES - {"string"} if writer == "convert" else values.PARTITION_TYPES
        columns, features = features.partitioned(columns, key, types=types)
    if mapping:
        columns = tuple(replace(column, stored=f"col-{random.randrange(10**6)}") for column in columns)
    rows = random.randint(20, 60)
    star = not features.extra
    query = a_query(random, columns, key, star=star)
    gaps, beyond = _gaps(random, features)
    return Case(
        rows_seed=random.randrange(10**9),
        writer=writer,
        columns=columns,
        extra=features.extra,
        key=tuple((name, random.random() < 0.2) for name in key),
        rows=rows,
        files=random.randint(1, 3),
        in_order=random.random() < 0.5,
        layout=features.layout,
        partition=features.partition,
        properties=features.properties,
        constraints=features.constraints,
        statistics=random.choice(STATISTICS[writer]) if writer in STATISTICS else "",
        odd_files=random.choice(ODD_FILES) if writer in STATISTICS and mapping != "name" else "",
        mapping=mapping,
        job=_job(random, columns, query, rows),
        gaps=gaps,
        beyond=beyond,
        verified=random.random() < 0.15,
    )


def _columns(
    random: random.Random, writer: str, features: Features, *, nested: bool
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Return columns in any order, and the key columns among them."""
    key_types = [random.choice(values.KEY_TYPES) for _ in range(random.choice(_MOST_KEY_COLUMNS))]
    if writer == "spark" and random.random() < 0.05:
        key_types[0] = random.choice(("char(8)", "varchar(12)"))
    if _FEW_VALUES.issuperset(key_types):
        key_types.append("long")
    others = [*values.VALUE_TYPES, *(values.SPARK_TYPES if writer == "spark" else ())]
    if not nested:
        others = [one for one in others if not values.is_nested(one)]
    types = [*key_types, *(random.choice(others) for _ in range(random.randint(1, 4)))]
    found = names.some_names(random, len(types), mapped=features.mapped, of_spark=writer in {"spark", "convert"})
    if nested and random.random() < 0.06:
        types, found = _dots_beside_a_struct(types, found, len(key_types))
    columns = [Column(name=name, type=one) for name, one in zip(found, types, strict=True)]
    key = tuple(found[: len(key_types)])
    random.shuffle(columns)
    return tuple(columns), key


def _dots_beside_a_struct(types: list[str], found: list[str], key_columns: int) -> tuple[list[str], list[str]]:
    """Name a key column ``a.b``, and have a struct ``a`` with a field ``b`` beside it."""
    rest = [(name, one) for name, one in zip(found, types, strict=True) if name.lower() not in {"a", "a.b"}]
    while len(rest) < len(types):
        rest.append((f"more{len(rest)}", "string"))
    pairs = [("a.b", types[0]), *rest[1:], ("a", "struct<a:integer,b:string>")]
    # The key columns remain the first ones after the renaming.
    pairs[1:key_columns] = [(name, types[i]) for i, (name, _) in enumerate(pairs[1:key_columns], 1)]
    return [one for _, one in pairs], [name for name, _ in pairs]


def _gaps(random: random.Random, features: Features) -> tuple[tuple[Gap, ...], tuple[Gap, ...]]:
    odd = random.random() < 0.3
    gaps = [_gap(random, most=1, odd=odd) for _ in range(3)]
    beyond = [_gap(random, most=2, odd=odd) for _ in range(2)]
    if features.alters:
        gaps[1] = replace(gaps[1], alters=(random.choice(features.alters),))
    # In about half of the cases the upstream does not change between creation and the first epoch.
    gaps[0] = gaps[0] if random.random() < 0.4 else Gap(settings=gaps[0].settings)
    return tuple(gaps), tuple(beyond)


def _gap(random: random.Random, *, most: int, odd: bool) -> Gap:
    return Gap(
        changes=tuple(random.choice(CHANGES) for _ in range(random.randint(0 if most == 1 else 1, most))),
        settings=some_settings(random) if odd and random.random() < 0.5 else {},
    )


def _job(random: random.Random, columns: tuple[Column, ...], query: str, rows: int) -> dict[str, Any]:
    strategy = random.choice(("no_shuffle", "no_shuffle", "arrangement", "snapshot"))
    visibility = random.choice(("every_epoch", "every_epoch", "on_finish"))
    job: dict[str, Any] = {
        "query": query,
        "strategy": strategy,
        "visibility": "on_finish" if strategy == "snapshot" else visibility,
        "vnode_count": random.choice((1, 2, 4)),
        "rate_limit": random.choice((None, rows - 3, rows // 2 + 1, rows // 2 + 1, rows // 3 + 1)),
    }
    if random.random() < 0.2:
        job["distribution_key"] = [
            random.choice([one.name for one in columns if one.type != "variant" and "map<" not in one.type])
        ]
    if random.random() < 0.08 and job["vnode_count"] > 1:
        job["restrict_to"] = {"vnodes": ["0-1" if job["vnode_count"] == 4 else 0]}
    elif random.random() < 0.08:
        # The index of the row in key order, because the rows are not drawn yet.
        job["restrict_after_row"] = random.randrange(rows // 2)
    if random.random() < 0.4:
        job["table_properties"] = random.choice(
            ({"delta.columnMapping.mode": "name"}, {"delta.enableDeletionVectors": "true"})
        )
    return job
