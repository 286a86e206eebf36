"""Run a demo in its own folder, and end all of its processes however it ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from rich.console import Console

from airflow_backfill_provider.applications.collector import SERIAL
from airflow_backfill_provider.applications.spark_settings import FIRST_COMPILER_ALONE, require_java
from airflow_backfill_provider.core.errors import BackfillError
from demo.folder import DemoError, fresh_folder
from demo.processes import Processes
from demo.run import DemoRun
from demo.terminal import Terminal

Play = Callable[[DemoRun], None]


def run_demo(name: str, play: Play, *, folder: str = ".demo", interrupted: int = 130) -> int:
    """
    Run a demo and return the program's exit code.

    :param name: the program's name in error messages.
    :param play: plays the demo.
    :param folder: the name of its folder in the checkout.
    :param interrupted: the exit code after Ctrl-C.
    """
    # SIGINT, too: a shell without job control starts background processes with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    # A Spark application takes only seconds here, and the JVM would spend most of them on optimizing code.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{FIRST_COMPILER_ALONE} {SERIAL}")
    try:
        require_java()
        with fresh_folder(folder) as fresh:
            run = DemoRun(fresh, Processes(fresh.logs), Processes(fresh.logs), Terminal(Console()))
            try:
                play(run)
            finally:
                # Another Ctrl-C must not interrupt the end of the processes.
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                run.processes.stop(patience=3)
                run.servers.stop()
    except (DemoError, BackfillError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: stopped; nothing is running any more", file=sys.stderr)
        return interrupted
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
