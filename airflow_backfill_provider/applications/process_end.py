"""
How a process of this package ends.

While the interpreter is torn down, a thread of another library that lets go of a Python object aborts the process. Its
work is done by then, but its exit code is 134.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

_INTERRUPTED = 130


def end_process_with(main: Callable[[], int | None]) -> NoReturn:
    """
    Run a program's main function, and end the process without tearing the interpreter down.

    What is registered for the end runs, and all output is written.

    :param main: returns the exit code, none for 0, or raises ``SystemExit``.
    """
    code = _code_of(main)
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no other way to run them
    for stream in (sys.stdout, sys.stderr):
        # Whoever read them may be gone.
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _code_of(main: Callable[[], int | None]) -> int:
    try:
        return main() or 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(type(error), error, error.__traceback__)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
