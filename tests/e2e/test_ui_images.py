"""Screens look like the stored images: roughly, because fonts differ from machine to machine.

Both are shrunk to blocks of eight by eight pixels. A word in another font hardly changes a block; a
missing style sheet, a column that wraps, a panel elsewhere changes many. New images, once they were
looked at:

    PENSTOCK_STORE_SCREENS=1 pytest tests/e2e/test_ui_images.py
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytest_plugins = ["ui_browser"]
pytestmark = pytest.mark.e2e

STORED = Path(__file__).resolve().parents[1] / "ui_fixture" / "screens"
MOST_DIFFERENT_BLOCKS = 0.1

SHRINK = """async (data) => {
  const image = await createImageBitmap(await (await fetch(data)).blob());
  const canvas = new OffscreenCanvas(Math.ceil(image.width / 8), Math.ceil(image.height / 8));
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const bytes = new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer());
  return btoa(String.fromCharCode(...bytes));
}"""

# The share of blocks in which a colour differs by more than an eighth of its range.
DIFFERENCE = """async (pair) => {
  const read = async (data) => {
    const image = await createImageBitmap(await (await fetch(data)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  };
  const [one, other] = await Promise.all(pair.map(read));
  if (one.width !== other.width || one.height !== other.height) return 1;
  let different = 0;
  for (let at = 0; at < one.data.length; at += 4) {
    const far = [0, 1, 2].some((c) => Math.abs(one.data[at + c] - other.data[at + c]) > 32);
    different += far ? 1 : 0;
  }
  return different / (one.data.length / 4);
}"""

SCREENS = {
    "jobs": ("normal", "", "light", "wide"),
    "no-jobs": ("empty", "", "dark", "phone"),
    "graph": ("normal", "/graph", "light", "wide"),
    "graph-phone": ("normal", "/graph", "dark", "phone"),
    "checkpoints": ("normal", "/checkpoints", "dark", "wide"),
    "history": ("failing", "/checkpoints/history", "light", "wide"),
    "timeline": ("normal", "/checkpoints/timeline", "light", "wide"),
    "exceptions": ("failing", "/exceptions", "dark", "wide"),
    "huge": ("huge", "/graph", "light", "wide"),
}


def as_address(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


@pytest.mark.parametrize("name", SCREENS)
def test_screen(
    name: str, browser: Any, serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    look, path, scheme, size = SCREENS[name]
    server = serve(look)
    address = f"#/jobs/{server.look.jobs[0].jid}{path}" if path else "#/"
    tab = open_tab(server.url, address, scheme=scheme, size=size, stands_still=True)
    tab.until(lambda: tab.page.locator("[aria-busy]").count() == 0, "keeps waiting")
    tab.page.mouse.move(0, 0)
    screen = tab.page.screenshot()
    blank = browser.new_page()
    small = base64.b64decode(blank.evaluate(SHRINK, as_address(screen)))
    stored = STORED / f"{name}.png"
    if os.environ.get("PENSTOCK_STORE_SCREENS"):
        STORED.mkdir(exist_ok=True)
        stored.write_bytes(small)
    pair = [as_address(small), as_address(stored.read_bytes())]
    different = blank.evaluate(DIFFERENCE, pair)
    blank.close()
    assert different < MOST_DIFFERENT_BLOCKS, f"{different:.0%} of {name} look different"
