"""What campaigns have in common whose cases are drawn and then played on Spark, each in a folder of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TypeVar

from pyspark.sql import SparkSession

from faults.campaign import Outcome, Play
from faults.spark import spark_session
from faults.table_shapes import case_folder

Case = TypeVar("Case")


@contextmanager
def drawn_cases(
    draw: Callable[[Random], Case], play: Callable[[Case, SparkSession, Path], Outcome], describe: Callable[[Case], str]
) -> Iterator[Play]:
    """
    Start Spark, and return what draws and plays a case there. An error tells what was drawn.

    :param play: plays a case in an empty folder.
    :param describe: returns a case as text.
    """
    with spark_session() as spark, tempfile.TemporaryDirectory(prefix="backfill-faults-") as root:

        def play_one(number: int, random: Random) -> Outcome:
            case = draw(random)
            try:
                with case_folder(Path(root), number, spark) as folder:
                    return play(case, spark, folder)
            except Exception as error:
                error.add_note(f"drawn: {describe(case)}")
                raise

        yield play_one
