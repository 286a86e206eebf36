"""
The benchmarks: ``make bench``, or ``make bench ARGS=growth`` for one of them.

Printed are figures of one run and their ratios; a JSON file in ``.bench`` holds every single one.
"""

from __future__ import annotations

import sys

from rich.console import Console

from bench import cold_start, control_plane, freshness, growth, pages, random_keys, waiting
from bench.comparison import main as comparison

BENCHMARKS = {
    "cold_start": cold_start.main,
    "comparison": comparison.main,
    "control_plane": control_plane.main,
    "freshness": freshness.main,
    "growth": growth.main,
    "pages": pages.main,
    "quick": comparison.quick,
    "random_keys": random_keys.main,
    "waiting": waiting.main,
from bench import growth, pages, random_keys, waiting, warm
    "warm": warm.main,
}

if __name__ == "__main__":
    console = Console(width=120)
    for name in sys.argv[1:] or BENCHMARKS:
        BENCHMARKS[name](console)
