"""Use the page of a job as a user does."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect


def ask(page: Page, button: str) -> Locator:
    """Press one of the buttons that mutate the job, and return its dialog."""
    page.get_by_role("group", name="Change the job").get_by_role("button", name=button).click()
    return page.get_by_role("dialog")


def answer(dialog: Locator, button: str) -> None:
    """Confirm a dialog, and see it close."""
    dialog.get_by_role("button", name=button).click()
    expect(dialog).to_be_hidden()
