"""Fixtures: a headless browser, pages that notice what goes wrong, the made-up service."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from ui_scenarios import LOOKS
from ui_server import UiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOW_MS = 1_795_298_897_000
"""2026-11-21 22:08:17 UTC, the moment of every made-up document."""
PATIENCE_S = 120
SIZES = {"wide": (1280, 860), "phone": (400, 860)}
_CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
# The page's clock starts at the moment of the documents, and runs on from there.
_STILL = f"Date.now = () => {NOW_MS};"
_CLOCK = f"""{{
  const now = Date.now;
  const ahead = {NOW_MS} - now();
  Date.now = () => now() + ahead;
}}"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if _CHROMIUM is None:
        pytest.skip("there is no chromium; tools/install_browser.sh installs it")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Tab:
    """A page of the browser with what it complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", self._note)
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def go(self, address: str) -> None:
        """Goes on within the document; the page before is not on the screen any more."""
        self.page.goto(address)
        # It is drawn anew in the frame after the one that hears of the address.
        self.page.evaluate(
            "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
        )

    def text(self, selector: str = "main") -> str:
        return self.page.locator(selector).inner_text()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for a condition, and shows the page when it does not come."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}\n{self.text('body')}\n{self.complaints}"
            self.page.wait_for_timeout(50)


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Opens an address of a service; complaints of the browser fail the test at its end."""
    opened: list[tuple[Any, Tab, bool]] = []

    def open_address(
        url: str,
        address: str = "#/",
        *,
        scheme: str = "light",
        size: str = "wide",
        made_up: bool = True,
        may_complain: bool = False,
        stands_still: bool = False,
    ) -> Tab:
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            timezone_id="Europe/Berlin",
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(1_000 * PATIENCE_S)
        page = context.new_page()
        if made_up:
            page.add_init_script(_STILL if stands_still else _CLOCK)
        tab = Tab(page)
        opened.append((context, tab, may_complain))
        page.goto(f"{url}/{address}")
        page.wait_for_selector("h1")
        return tab

    yield open_address
    complaints = [each for _, tab, may in opened if not may for each in tab.complaints]
    for context, _, _ in opened:
        context.close()
    assert not complaints, complaints


@pytest.fixture
def serve() -> Iterator[Callable[[str], UiServer]]:
    """Serves a look by its name."""
    servers: list[UiServer] = []

    def serve_look(name: str) -> UiServer:
        servers.append(UiServer(LOOKS[name](NOW_MS)))
        return servers[-1]

    yield serve_look
    for server in servers:
        server.stop()
