"""Where commands print to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """Return the console for what is not an error; it prints text as it is."""
    from rich.console import Console

    return Console(soft_wrap=True, markup=False, highlight=False)


def print_json(value: object) -> None:
    """Print one JSON value."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
