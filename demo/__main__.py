"""``python -m demo``: see the README. ``DEMO_ROWS=100000`` makes the demo smaller, ``DEMO_FOLDER`` moves its folder."""

from __future__ import annotations

import sys

from demo.delta.upstream import DeltaOrders
from demo.main import main
from demo.star.upstream import DeltaStar

if __name__ == "__main__":
    sys.exit(main("demo", "A backfill to watch.", DeltaOrders, folder=".demo", star=DeltaStar))
