"""The anchors of a page's headings, as the site and GitHub make them."""

from __future__ import annotations

import re
from pathlib import Path

FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}
