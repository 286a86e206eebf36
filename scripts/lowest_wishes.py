"""Print a lock file without the packages that the project names as its own dependencies.

What is left are the versions that a resolution of the lowest dependencies keeps where it can. So the lowest set differs
from the lock file only in what ``pyproject.toml`` promises, and in what follows from that.

Usage: python scripts/lowest_wishes.py LOCK_FILE
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path("pyproject.toml")
RUNTIME = "spark"
"""The extra that users install; the others are for work on the project."""

_AFTER_NAME = re.compile(r"[^A-Za-z0-9._-]")


def canonical(requirement: str) -> str:
    """Return a requirement's name in the one form that all spellings have in common."""
    return re.sub(r"[-_.]+", "-", _AFTER_NAME.split(requirement, maxsplit=1)[0]).lower()


def main() -> None:
    """Print the lines of all other packages."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    own = {canonical(one) for one in (*project["dependencies"], *project["optional-dependencies"][RUNTIME])}
    mine = False
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        if line[:1].isalnum():
            mine = canonical(line) in own
        if not mine:
            print(line)


if __name__ == "__main__":
    main()
