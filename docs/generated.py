"""
Generate parts of the documentation: blocks between markers, each made by a script in this folder.

A block lies between ``<!-- generated: NAME -->`` and ``<!-- /generated -->``; all other text is written by hand.
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


def filled(pages: Mapping[Path, str], blocks: Mapping[str, str]) -> dict[Path, str]:
    """
    Return pages with new content for all of their blocks.

    :param pages: the present text of each page.
    :raises KeyError: if the pages and the script have different blocks, or a block twice.
    """
    names = [match["name"] for text in pages.values() for match in _BLOCK.finditer(text)]
    if sorted(names) != sorted(blocks):
        wrong = {name for name in names if names.count(name) > 1} | (set(names) ^ set(blocks))
        raise KeyError(f"blocks of the pages and of the script differ: {sorted(wrong)}")
    return {page: refilled(text, blocks) for page, text in pages.items()}


def read(pages: Iterable[Path]) -> dict[Path, str]:
    """Return the present text of each page."""
    return {page: page.read_text(encoding="utf-8") for page in pages}


def refilled(text: str, blocks: Mapping[str, str]) -> str:
    """Return a page with new content for some of its blocks."""

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        return f"{match[1]}\n{blocks[name]}\n{match[4]}" if name in blocks else match[0]

    return _BLOCK.sub(block, text)


def block_of(text: str, name: str) -> str:
    """
    Return the content of a block of a page.

    :raises KeyError: if the page has no such block.
    """
    return {match["name"]: match["body"] for match in _BLOCK.finditer(text)}[name]


def main(pages: Sequence[Path], blocks: Mapping[str, str]) -> int:
    """Print the blocks; with ``--write`` put them into the pages, with ``--check`` compare them with these."""
    parser = argparse.ArgumentParser(description=f"Make the generated blocks of {', '.join(p.name for p in pages)}.")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="put the blocks into the pages")
    action.add_argument("--check", action="store_true", help="print the difference and exit with 1 if a page is stale")
    arguments = parser.parse_args()
    if not (arguments.write or arguments.check):
        sys.stdout.write("\n".join(f"## {name}\n\n{body}" for name, body in blocks.items()))
        return 0
    before = read(pages)
    after = filled(before, blocks)
    for page, text in after.items():
        if arguments.write:
            page.write_text(text, encoding="utf-8")
        else:
            lines = (before[page].splitlines(True), text.splitlines(True))
            sys.stdout.writelines(difflib.unified_diff(*lines, page.name, "generated"))
    return int(not arguments.write and before != after)


def _cell(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("|", "\\|").replace("\n", " ")
