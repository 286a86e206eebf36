"""The files that travel with the package beside its code: applications, example DAGs and constraints."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import airflow_backfill_provider
from airflow_backfill_provider.core.errors import InstallationError

PACKAGE = Path(airflow_backfill_provider.__file__).parent


def shipped_folder(name: str) -> Path:
    """
    Return a folder of such files: in the installed package, or beside it in a checkout.

    :raises InstallationError: if it is in neither.
    """
    for folder in (PACKAGE / name, PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise InstallationError(
        f"{name} is missing from the installation at {PACKAGE}; install airflow-backfill-provider again"
    )


def copy_examples(target: Path) -> Iterator[tuple[Path, bool]]:
    """
    Copy the example DAGs and their job files.

    :param target: the folder to write to; it is made if it does not exist.
    :returns: each file in the target, and whether it is new; one that was there is left as it is.
    :raises InstallationError: if the installation has no examples.
    """
    source = shipped_folder("dags")
    for file in sorted([*source.rglob("*.py"), *source.rglob("*.yaml")]):
        copy = target / file.relative_to(source)
        is_new = not copy.exists()
        if is_new:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        yield copy, is_new


def tested_versions() -> str:
    """
    Return the constraints for the Python that runs this.

    :raises InstallationError: if this Python is not tested.
    """
    folder = shipped_folder("constraints")
    file = folder / f"runtime-python-{sys.version_info.major}.{sys.version_info.minor}.txt"
    if not file.is_file():
        tested = ", ".join(sorted(found.stem.removeprefix("runtime-python-") for found in folder.glob("runtime-*.txt")))
        raise InstallationError(
            f"there are no tested versions for Python {sys.version.split()[0]}; use Python {tested}"
        )
    return file.read_text(encoding="utf-8")
