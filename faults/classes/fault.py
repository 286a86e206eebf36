"""A class of faults, and what the classes share: rebuilds, and copies of folders."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults.table_shapes import EXPECTED
from tests.integration.engine.lakehouse import Lakehouse

Strike = Callable[[Lakehouse, random.Random], object]
Mend = Callable[[Lakehouse], object]


def rebuild(lakehouse: Lakehouse) -> None:
    """Start the job over."""
    assert lakehouse.job is not None
    fields = lakehouse.job.model_dump(mode="json")
    lakehouse.rebuild(**{name: fields[name] for name in fields if name not in {"name", "materialized_view", "state"}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """
    A class of faults.

    :param strike: makes the fault happen.
    :param mend: what an operator does if the job is refused.
    :param refused: whether the job must be refused; otherwise it may also end right.
    :param expected: the view's rows, as a query of the upstream.
    """

    strike: Strike
    mend: Mend = rebuild
    refused: bool = False
    expected: str = EXPECTED


def adding_to(faults: dict[str, Fault]) -> Callable[..., Callable[[Strike], Strike]]:
    """Return a decorator that adds a class of faults; it takes the class's name, and the fields of :class:`Fault`."""

    def fault(name: str, **how: object) -> Callable[[Strike], Strike]:
        def add(strike: Strike) -> Strike:
            faults[name] = Fault(strike=strike, **how)  # type: ignore[arg-type]
            return strike

        return add

    return fault


KEPT = "kept aside"
"""The name of the folder with the copy."""


def data_files(folder: str) -> list[Path]:
    """Return the data files in a table's folder."""
    return [file for file in Path(folder).rglob("*.parquet") if "_delta_log" not in file.parts]


@contextmanager
def kept_aside(lakehouse: Lakehouse, folder: str) -> Iterator[None]:
    """Copy a folder before it is damaged, for :func:`restore_copy`."""
    shutil.copytree(folder, lakehouse.folder / KEPT)
    yield


def restore_copy(path: Callable[[Lakehouse], str]) -> Mend:
    """Return a mend that restores the copy of a folder."""

    def mend(lakehouse: Lakehouse) -> None:
        shutil.rmtree(path(lakehouse), ignore_errors=True)
        shutil.copytree(lakehouse.folder / KEPT, path(lakehouse))

    return mend
