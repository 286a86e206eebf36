"""The settings of Spark 4.2 and Delta 4.4, and whether each may stay as a session has it."""

from __future__ import annotations

from pathlib import Path

_LINES = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()

KNOWN_SETTINGS = {name: verdict == "stays" for verdict, name in map(str.split, _LINES)}
"""Setting → whether it changes no result, or is one that we set ourselves."""
