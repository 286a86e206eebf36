"""The documentation's pages: their generated tables are current, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import cdc_example, plan_example, reference_tables, snapshot_example, source_example, terminal_picture
from docs.generated import filled, read

CHECKOUT = Path(__file__).parents[3]
PAGES = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")])

_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_SVG_TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_the_reference_says_what_the_code_says():
    pages = read(reference_tables.PAGES)
    assert filled(pages, reference_tables.make()) == pages


def test_the_picture_of_the_terminal_says_what_the_views_say():
    # Text alone: versions of Rich draw the frame differently.
    drawn, stored = terminal_picture.draw(), terminal_picture.PICTURE.read_text(encoding="utf-8")
    assert _SVG_TEXT.findall(drawn) == _SVG_TEXT.findall(stored) != []


@pytest.mark.slow
def test_a_plan_says_what_the_page_shows():
    pages = read(plan_example.PAGES)
    assert filled(pages, plan_example.make()) == pages


def test_the_example_of_cdc_says_what_the_page_shows():
    """I1: the example compares its view with the query after each epoch."""
    pages = read(cdc_example.PAGES)
    assert filled(pages, cdc_example.make()) == pages


def test_the_example_of_source_says_what_the_page_shows():
    """I1 after each epoch, and I2: a second attempt reads the same records."""
    pages = read(source_example.PAGES)
    assert filled(pages, source_example.make()) == pages


def test_the_example_of_snapshot_says_what_the_page_shows():
    """I1: the example compares its view with the upstream's rows after each epoch."""
    pages = read(snapshot_example.PAGES)
    assert filled(pages, snapshot_example.make()) == pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_lead_somewhere(page):
    for path, anchor in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in anchors_of(target), f"{path}#{anchor}"
