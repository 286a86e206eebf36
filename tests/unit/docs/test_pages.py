"""The documentation's pages: their generated tables are current, and their links lead somewhere."""

from __future__ import annotations

import itertools
import re

import pytest

from docs import (
    cdc_example,
    join_example,
    plan_example,
    reference_tables,
    snapshot_example,
    source_example,
    terminal_picture,
)
from docs.blocks import ROOT, pages
from docs.generated import filled, read
from tests.unit.docs.anchors import FENCE, anchors_of

PAGES = pages()

_SVG_TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")
FOLDERS = ("airflow_backfill_provider", "bench", "dags", "demo", "faults", "scripts", "spark_apps", "tests")

_NAMED = re.compile(r"\bdocs/[a-z0-9/-]+\.md(#[a-z0-9-]+)?")
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")


def test_the_reference_says_what_the_code_says():
    before = read(reference_tables.PAGES)
    assert filled(before, reference_tables.make()) == before


def test_the_picture_of_the_terminal_says_what_the_views_say():
    # Text alone: versions of Rich draw the frame differently.
    drawn, stored = terminal_picture.draw(), terminal_picture.PICTURE.read_text(encoding="utf-8")
    assert _SVG_TEXT.findall(drawn) == _SVG_TEXT.findall(stored) != []


@pytest.mark.slow
def test_a_plan_says_what_the_page_shows():
    before = read(plan_example.PAGES)
    assert filled(before, plan_example.make()) == before


def test_the_example_of_cdc_says_what_the_page_shows():
    """I1: the example compares its view with the query after each epoch."""
    before = read(cdc_example.PAGES)
    assert filled(before, cdc_example.make()) == before


def test_the_example_of_source_says_what_the_page_shows():
    """I1 after each epoch, and I2: a second attempt reads the same records."""
    before = read(source_example.PAGES)
    assert filled(before, source_example.make()) == before


def test_the_example_of_snapshot_says_what_the_page_shows():
    """I1: the example compares its view with the upstream's rows after each epoch."""
    before = read(snapshot_example.PAGES)
    assert filled(before, snapshot_example.make()) == before


def test_the_example_of_a_join_says_what_the_page_shows():
    """I1: the example compares its view with the query over the whole tables after each epoch."""
    before = read(join_example.PAGES)
    assert filled(before, join_example.make()) == before
    assert join_example.QUERY in before[join_example.PAGES[0]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for path, anchor in _LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in anchors_of(target), f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_list_is_one_on_the_site_too(page):
    """The site's Markdown wants a blank line before a list, and four blanks before what belongs to an item."""
    lines = FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
    for before, line in itertools.pairwise(lines):
        if re.match(r"([-*]|\d+\.) ", line):
            assert re.match(r"$| |([-*]|\d+\.) |<!--", before), f"put a blank line before: {line}"
        if not before.strip() and line.startswith(" "):
            assert line.startswith("    "), f"put four blanks before: {line.strip()}"


def test_what_the_code_says_of_pages_leads_somewhere():
    """A test or a docstring that names a page, or a rule on it."""
    code = [ROOT / "Makefile", *(file for folder in FOLDERS for file in ROOT.joinpath(folder).rglob("*.py"))]
    for name in {found[0] for file in code for found in _NAMED.finditer(file.read_text(encoding="utf-8"))}:
        path, _, anchor = name.partition("#")
        if not path.endswith("/a.md"):  # of a test about any page
            assert (ROOT / path).is_file(), name
            assert not anchor or anchor in anchors_of(ROOT / path), name
