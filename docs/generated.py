"""
The generated parts of the documentation: blocks between markers, each made by a script beside this file.

A block stands between ``<!-- generated: NAME -->`` and ``<!-- /generated -->``; everything outside is written by hand.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_BLOCK = re.compile(r"(<!-- generated: (?P<name>[a-z0-9 ]+) -->\n)(?P<body>.*?)(<!-- /generated -->)", re.DOTALL)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(_cell(value) for value in line) + " |\n" for line in lines)


def filled(text: str, blocks: Mapping[str, str]) -> str:
    """
    Return a page with its blocks made anew.

    :raises KeyError: if the page has a block that was not made, or lacks one that was.
    """
    names = {match["name"] for match in _BLOCK.finditer(text)}
    if names != set(blocks):
        raise KeyError(f"blocks of the page and of the script differ: {sorted(names ^ set(blocks))}")
    return refilled(text, blocks)


def refilled(text: str, blocks: Mapping[str, str]) -> str:
    """Return a page with some of its blocks made anew, and the others as they are."""

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        return f"{match[1]}\n{blocks[name]}\n{match[4]}" if name in blocks else match[0]

    return _BLOCK.sub(block, text)


def block_of(text: str, name: str) -> str:
    """
    Return what a block of a page holds.

    :raises KeyError: if the page has no such block.
    """
    return {match["name"]: match["body"] for match in _BLOCK.finditer(text)}[name]


def main(page: Path, blocks: Mapping[str, str]) -> int:
    """Print the blocks, or with ``--write`` put them into the page, or with ``--check`` compare them with it."""
    parser = argparse.ArgumentParser(description=f"Makes the generated blocks of {page.name}.")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="put the blocks into the page")
    action.add_argument("--check", action="store_true", help="end with 1 and show the difference if the page is stale")
    arguments = parser.parse_args()
    if not (arguments.write or arguments.check):
        sys.stdout.write("\n".join(f"## {name}\n\n{body}" for name, body in blocks.items()))
        return 0
    before = page.read_text(encoding="utf-8")
    after = filled(before, blocks)
    if arguments.write:
        page.write_text(after, encoding="utf-8")
        return 0
    sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), after.splitlines(True), page.name, "generated"))
    return int(before != after)


def _cell(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("|", "\\|").replace("\n", " ")
