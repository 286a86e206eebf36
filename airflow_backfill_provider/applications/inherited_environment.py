"""
The environment that a Spark application, an engine or a supervisor inherits.

A worker's environment has Airflow's secrets, such as the Fernet key, the address of the database and connections of
other jobs. Nothing that this package starts needs them, so they are left out. An application gets the connections of
its own job in addition.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

_AIRFLOWS = re.compile(r"_?AIRFLOW_(?!BACKFILL_)", re.IGNORECASE)
"""Airflow's own variables: its configuration, connections, variables and the context of a task."""


def inherited_environment(without: Collection[str] = ()) -> dict[str, str]:
    """
    Return this process's environment without what is Airflow's own.

    :param without: further variables to leave out.
    """
    return {name: value for name, value in os.environ.items() if name not in without and not _AIRFLOWS.match(name)}


@contextmanager
def airflows_own_left_out() -> Iterator[None]:
    """Leave Airflow's own variables out of the environment, for a program that a library starts in the block."""
    own = {name: value for name, value in os.environ.items() if _AIRFLOWS.match(name)}
    for name in own:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(own)
