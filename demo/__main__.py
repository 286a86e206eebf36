"""``python -m demo``: see the README. ``DEMO_ROWS=100000`` makes the demo smaller, ``DEMO_FOLDER`` moves its folder."""

from __future__ import annotations

import argparse
import sys

from demo.folder import DemoFolder, size_from_environment
from demo.processes import Processes
from demo.runner import run_demo
from demo.scenario import Scenario
from demo.terminal import Terminal


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="A backfill to watch.")
    parser.add_argument("--stay", action="store_true", help="keep everything running at the end, until Ctrl-C")
    arguments = parser.parse_args()

    def play(folder: DemoFolder, processes: Processes, terminal: Terminal) -> None:
        Scenario(folder, size_from_environment(), processes, terminal).run(stay=arguments.stay)

    return run_demo("demo", play)


if __name__ == "__main__":
    sys.exit(main())
