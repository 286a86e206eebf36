"""
Upstreams that several tests begin with: Spark makes each once in a process, and other tests get a copy.

A copy takes a hundredth of what Spark needs for a table and its rows. Each lies in a folder of its own, so nothing that
a JVM remembers of one folder is about another one.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.builders import Logged, logged

_UNREPEATABLE = re.compile(r"\b(?:rand\w*|uuid|now|current_\w+|shuffle)\(|\bFROM\s+(?!range\()", re.IGNORECASE)
"""What may be something else in another test: the time, chance, and other tables."""


class UpstreamTemplates:
    """
    Copies of upstreams, by the statements that made them.

    :param folder: where to keep them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copies: dict[tuple[str, ...], Path] = {}

    def restore(self, statements: tuple[str, ...], path: Path) -> bool:
        """Add to a table what it lacks after these statements; return whether they are known."""
        copy = self._copies.get(statements)
        if copy is None:
            return False
        for file in sorted(copy.rglob("*")):
            target = path / file.relative_to(copy)
            if file.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            elif not target.exists():
                shutil.copyfile(file, target)
        return True

    def keep(self, statements: tuple[str, ...], path: Path) -> None:
        """Keep a table as these statements left it."""
        copy = self._folder / str(len(self._copies))
        shutil.copytree(path, copy)
        self._copies[statements] = copy


class BeginningUpstream:
    """
    An upstream as long as only statements that can be repeated have made it.

    :param templates: what other tests made.
    """

    def __init__(self, templates: UpstreamTemplates) -> None:
        self._templates = templates
        self._statements: tuple[str, ...] = ()
        self._left: tuple[Path, Logged] | None = None

    def run(self, statement: str, path: Path, run: Callable[[], object]) -> bool:
        """
        Run a statement, or copy what it made elsewhere.

        :param path: where the table lies.
        :param run: runs the statement.
        :return: whether the statements so far can be repeated; if not, nothing was done.
        """
        is_new = self._left is None and statement.startswith("CREATE") and not path.exists()
        is_as_left = self._left == (path, logged(path))
        if not (is_new or is_as_left) or _UNREPEATABLE.search(statement):
            return False
        statements = (*self._statements, statement)
        if not self._templates.restore(statements, path):
            run()
            self._templates.keep(statements, path)
        self._statements, self._left = statements, (path, logged(path))
        return True
