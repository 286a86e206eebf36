"""
The benchmarks: ``make bench``, or ``make bench ARGS=growth`` for one of them; ``make bench-quick`` for a few minutes.

They print the figures of one run and their ratios; a JSON file in ``.bench`` holds every figure.
"""

from __future__ import annotations

import sys

from rich.console import Console

from bench import (
    cold_start,
    control_plane,
    freshness,
    growth,
    hidden_rows,
    memory,
    pages,
    random_keys,
    store,
    targets,
    waiting,
    warm,
    wide_rows,
)
from bench.cdc import main as cdc
from bench.comparison import main as comparison
from bench.comparison import parts
from bench.groups import main as groups
from bench.groups import profile as groups_profile
from bench.joins import main as joins
from bench.joins import profile as joins_profile
from bench.life import main as life
from bench.soak import main as soak
from bench.source import main as source

BENCHMARKS = {
    "comparison": comparison.main,
    "parts": parts.main,
    "freshness": freshness.main,
    "growth": growth.main,
    "memory": memory.main,
    "random_keys": random_keys.main,
    "cold_start": cold_start.main,
    "pages": pages.main,
    "waiting": waiting.main,
    "warm": warm.main,
    "cdc": cdc.main,
    "source": source.main,
    "groups": groups.main,
    "joins": joins.main,
    "life": life.main,
    "store": store.main,
    "soak": soak.main,
    "targets": targets.main,
}
"""The default benchmarks, in order. The targets come last, because they read the results of the others."""

PARTS = {
    "quick": comparison.quick,
    "control_plane": control_plane.main,
    "wide_rows": wide_rows.main,
    "groups_profile": groups_profile.main,
    "joins_profile": joins_profile.main,
    "hidden_rows": hidden_rows.main,
}
"""Benchmarks that run only when they are named."""

if __name__ == "__main__":
    console = Console(width=120)
    for name in sys.argv[1:] or BENCHMARKS:
        {**BENCHMARKS, **PARTS}[name](console)
