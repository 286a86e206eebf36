"""The output of commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """Return a console for standard output that prints text as it is."""
    from rich.console import Console

    return Console(soft_wrap=True, markup=False, emoji=False, highlight=False)


def print_json(value: object) -> None:
    """Print one JSON value."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
