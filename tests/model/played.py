"""
Whether the slow tests of the model were played since it last changed: ``python -m tests.model.played --write``.

The model imports nothing of the package, so only a change of the model itself can make its tests fail. As long as it is
as it was when they passed, `make test` leaves the slow ones to `make test-exhaustive`.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
RECORD = "played.txt"


def digest(folder: Path = FOLDER) -> str:
    """Return a hash of all code of the model and of its tests."""
    found = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        found.update(f"{file.name}\n".encode() + file.read_bytes())
    return found.hexdigest()


def is_played(folder: Path = FOLDER) -> bool:
    """Return whether the model is as it was when its slow tests last passed."""
    record = folder / RECORD
    return record.exists() and record.read_text(encoding="utf-8").strip() == digest(folder)


if __name__ == "__main__" and "--write" in sys.argv:
    (FOLDER / RECORD).write_text(digest() + "\n", encoding="utf-8")
