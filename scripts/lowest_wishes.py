"""Print a lock file without the project's own dependencies.

A resolution of the lowest dependencies keeps the remaining versions where it can. So the lowest set differs from the
lock file only in the project's own dependencies, and where these require other versions.

Usage: python scripts/lowest_wishes.py LOCK_FILE
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path("pyproject.toml")
_AFTER_NAME = re.compile(r"[^A-Za-z0-9._-]")


def canonical(requirement: str) -> str:
    """Return a requirement's normalized name."""
    return re.sub(r"[-_.]+", "-", _AFTER_NAME.split(requirement, maxsplit=1)[0]).lower()


def main() -> None:
    """Print the lines of all other packages."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = (one for extra in project["optional-dependencies"].values() for one in extra)
    own = {canonical(one) for one in (*project["dependencies"], *extras)}
    mine = False
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        if line[:1].isalnum():
            mine = canonical(line) in own
        if not mine:
            print(line)


if __name__ == "__main__":
    main()
