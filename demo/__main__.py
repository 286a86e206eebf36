"""``python -m demo``: see the README; ``DEMO_ROWS=100000`` makes it smaller, ``DEMO_FOLDER`` puts it elsewhere."""

from __future__ import annotations

import argparse
import sys

from demo.places import Places, size_from_environment
from demo.processes import Processes
from demo.stage import perform
from demo.story import Story
from demo.terminal import Terminal


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="A backfill to watch.")
    parser.add_argument("--stay", action="store_true", help="keep everything running at the end, until Ctrl-C")
    arguments = parser.parse_args()

    def show(places: Places, processes: Processes, terminal: Terminal) -> None:
        Story(places, size_from_environment(), processes, terminal).tell(stay=arguments.stay)

    return perform("demo", show)


if __name__ == "__main__":
    sys.exit(main())
