"""Prints how a table that should become a view differs from the query."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from airflow_backfill_provider.core.errors import AdoptedTableDiffersError


@contextmanager
def saying_keys() -> Iterator[None]:
    """Print the first keys that differ, if a table is refused because it differs; the error itself has no keys."""
    try:
        yield
    except AdoptedTableDiffersError as error:
        for line in error.keys:
            typer.echo(f"  {line}")
        raise
