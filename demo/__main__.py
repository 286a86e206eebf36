"""``python -m demo``: see the README; ``DEMO_ROWS=100000`` makes it smaller, ``DEMO_FOLDER`` puts it elsewhere."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from types import FrameType

from rich.console import Console

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.spark_settings import require_java
from demo.places import DemoError, fresh_places, size_from_environment
from demo.processes import Processes
from demo.story import Story
from demo.terminal import Terminal


def main() -> int:
    """Run the demo, and leave no process behind however it ends."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="A backfill to watch.")
    parser.add_argument("--stay", action="store_true", help="keep everything running at the end, until Ctrl-C")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    # A Spark application lives for seconds here, most of which the JVM would spend on optimizing code.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    terminal = Terminal(Console())
    try:
        require_java()
        with fresh_places() as places:
            processes = Processes(places.logs)
            try:
                Story(places, size_from_environment(), processes, terminal).tell(stay=arguments.stay)
            finally:
                # Another Ctrl-C must not keep the processes from being ended.
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                processes.stop(patience=3)
    except (DemoError, BackfillError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: stopped; nothing runs any more", file=sys.stderr)
        return 130
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
