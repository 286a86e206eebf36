"""What every show of the demo has in common: a folder of its own, and nothing left running however it ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from rich.console import Console

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.runtime.spark_settings import require_java
from demo.places import DemoError, Places, fresh_places
from demo.processes import Processes
from demo.terminal import Terminal

Show = Callable[[Places, Processes, Terminal], None]


def perform(name: str, show: Show, *, interrupted: int = 130) -> int:
    """
    Run a show and return the program's exit code.

    :param name: what begins an error message.
    :param show: what happens.
    :param interrupted: the exit code after Ctrl-C.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    # A Spark application lives for seconds here, most of which the JVM would spend on optimizing code.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    try:
        require_java()
        with fresh_places() as places:
            processes = Processes(places.logs)
            try:
                show(places, processes, Terminal(Console()))
            finally:
                # Another Ctrl-C must not keep the processes from being ended.
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                processes.stop(patience=3)
    except (DemoError, BackfillError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: stopped; nothing runs any more", file=sys.stderr)
        return interrupted
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
