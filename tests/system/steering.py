"""What a user does on the page of a job."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect


def ask(page: Page, button: str) -> Locator:
    """Press one of the buttons that steer, and return its dialog."""
    page.get_by_role("group", name="Steer the job").get_by_role("button", name=button).click()
    return page.get_by_role("dialog")


def answer(dialog: Locator, button: str) -> None:
    """Confirm a dialog, and see it close."""
    dialog.get_by_role("button", name=button).click()
    expect(dialog).to_be_hidden()
