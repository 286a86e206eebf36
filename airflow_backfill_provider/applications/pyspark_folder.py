"""Where PySpark is installed in this Python; to import it would take longer."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def pyspark_folder() -> Path | None:
    """Return the folder of PySpark's package, which is a complete Spark; ``None`` if it is not installed."""
    found = importlib.util.find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).parent
