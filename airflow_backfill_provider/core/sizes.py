"""Sizes in bytes, as people write them."""

from __future__ import annotations

import re

_SIZE = re.compile(r"\s*(\d+)\s*([kmgt]?)b?\s*", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def bytes_of(text: str) -> int | None:
    """Parse a size as in Delta's properties, such as ``104857600`` or ``100mb``; ``None`` if the text is no size."""
    found = _SIZE.fullmatch(text)
    return int(found[1]) * _UNITS[found[2].lower()] if found else None
