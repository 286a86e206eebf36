"""The addresses of documentation and code are the same wherever they are written."""

from __future__ import annotations

import re
import tomllib

import pytest

from airflow_backfill_provider.core.site import DOCS_VARIABLE, REPOSITORY, SITE, page
from airflow_backfill_provider.get_provider_info import get_provider_info
from docs.blocks import ROOT
from tests.unit.docs.anchors import FENCE, anchors_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINKS = [first or second for first, second in re.findall(r"\]\(([^)]+)\)|^\[[^\]]+\]: (\S+)$", README, re.MULTILINE)]


def source_of(address):
    """Return the file that an address of the site or of the repository stands for, and the anchor on it."""
    name, _, anchor = address.partition("#")
    if name.startswith(REPOSITORY):
        return ROOT / re.sub(rf"^{re.escape(REPOSITORY)}/(blob|raw)/main/", "", name), anchor
    source = ROOT / "docs" / name.removeprefix(f"{SITE}/").replace(".html", ".md")
    return source if source.exists() else source.with_name("README.md"), anchor


def test_the_project_and_the_provider_have_these_addresses():
    urls = PROJECT["urls"]
    assert (urls["Homepage"], urls["Documentation"], urls["Repository"]) == (SITE, SITE, REPOSITORY)
    assert all(url.startswith((SITE, REPOSITORY)) for url in urls.values())
    assert get_provider_info()["integrations"][0]["external-doc-url"] == f"{SITE}/"


def test_the_sites_configuration_has_its_address():
    assert f"\nsite_url: {SITE}/\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("end", ["", "/"])
def test_a_page_is_found_where_the_site_puts_it(monkeypatch, end):
    monkeypatch.setenv(DOCS_VARIABLE, f"{SITE}{end}")
    assert page("how-to/rebuild") == f"{SITE}/how-to/rebuild.html"
    assert source_of(page("how-to/rebuild"))[0].is_file()


@pytest.mark.parametrize("empty", [True, False])
def test_a_message_has_no_address_where_nobody_knows_of_a_site(monkeypatch, empty):
    """A dead link would be worse than a name."""
    monkeypatch.delenv(DOCS_VARIABLE, raising=False)
    if empty:
        monkeypatch.setenv(DOCS_VARIABLE, "")
    assert page("how-to/rebuild") == "the page how-to/rebuild of the documentation"


def test_a_message_names_a_page_that_exists():
    code = [file.read_text(encoding="utf-8") for file in (ROOT / "airflow_backfill_provider").rglob("*.py")]
    names = {name for text in code for name in re.findall(r"\bpage\('([^']+)'\)", text)}
    assert names
    assert [name for name in names if not (ROOT / "docs" / f"{name}.md").is_file()] == []


def test_each_reference_of_the_readme_is_defined():
    """As ``[text][name]``, or as ``[name]`` alone."""
    text = FENCE.sub("", README)
    defined = {name.lower() for name in re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE)}
    used = {
        (second or first).lower() for first, second in re.findall(r"(?<!!)\[([^\]]+)\](?:\[([^\]]+)\]|(?![(:]))", text)
    }
    assert used == defined


@pytest.mark.parametrize("link", LINKS)
def test_a_link_of_the_readme_works_on_a_package_index(link):
    """It is whole, because an index has no file beside it; and it leads to a page, and to a heading on it."""
    assert link.startswith((f"{SITE}/", f"{REPOSITORY}/"))
    source, anchor = source_of(link)
    assert source.is_file(), link
    assert not anchor or anchor in anchors_of(source), link
