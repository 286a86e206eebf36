"""
Classes of faults, each on a job in the middle of its backfill, under both strategies.

A fault strikes, and the job continues. Either it ends right, or it is refused by a named error. Then the job is mended
as an operator would do it, and ends right.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_backfill_provider.core.errors import BackfillError
from faults.campaign import Campaign, Outcome, Play, WrongError
from faults.classes import definition, machine, state, upstream, view, writers
from faults.classes.fault import Fault
from faults.spark import spark_session
from faults.table_shapes import Shape, Stage, forget_tables, require_right, stage

FAULTS: dict[str, Fault] = {
    **upstream.FAULTS,
    **writers.FAULTS,
    **view.FAULTS,
    **state.FAULTS,
    **machine.FAULTS,
    **definition.FAULTS,
}

_PROPERTIES = {"delta.columnMapping.mode": "name"}
SHAPES = (
    Shape(name="in place, mapped columns", properties=_PROPERTIES),
    Shape(name="arrangement, mapped columns", properties=_PROPERTIES, job={"strategy": "arrangement"}),
)


def play_fault(made: Stage, name: str, shape: Shape, random: random.Random) -> Outcome:
    """Let a fault strike a job, and check how the job ends."""
    found = FAULTS[name]
    lakehouse = made.restore(shape)
    about = f"{name} ({shape.name})"
    found.strike(lakehouse, random)
    forget(made)
    try:
        epochs = require_right(lakehouse, found.expected)
    except BackfillError as error:
        found.mend(lakehouse)
        forget(made)
        epochs = require_right(lakehouse, found.expected)
        return Outcome(type(error).__name__, checks=epochs, about=f"{about}: {error}")
    if found.refused:
        raise WrongError(f"{about}: not refused")
    return Outcome(checks=epochs, about=about)


def forget(made: Stage) -> None:
    """Drop what Delta remembers of tables, because their files were changed."""
    forget_tables(made.spark)


@contextmanager
def _stage() -> Iterator[Play]:
    # First each class once, under one strategy or the other.
    rounds = range(len(SHAPES))
    cases = [(name, SHAPES[(n + i) % len(SHAPES)]) for n in rounds for i, name in enumerate(FAULTS)]
    with spark_session() as spark, stage(spark) as made:

        def play(case: int, random: random.Random) -> Outcome:
            return play_fault(made, *cases[case % len(cases)], random)

        yield play


CAMPAIGN = Campaign(
    name="classes",
    about="classes of faults: the upstream, the view, the state, the machine, and what people write",
    quick=len(FAULTS),
    full=5 * len(FAULTS) * len(SHAPES),
    checks="epochs",
    stage=_stage,
)
