"""Every page in every look, light and dark, wide and on a phone: whole, readable, reachable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytest_plugins = ["ui_browser"]
pytestmark = pytest.mark.e2e

# Texts whose contrast with what is behind them is below 4.5 (3 when large), as WCAG AA reckons it.
LOW_CONTRAST = """() => {
  const channels = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    const unit = text.startsWith("color(") ? 1 : 255;
    const [r, g, b] = found.slice(0, 3).map((each) => each / unit);
    return { rgb: [r, g, b], alpha: found.length > 3 ? found[3] : 1 };
  };
  const light = ([r, g, b]) => {
    const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const { rgb, alpha } = channels(getComputedStyle(each).backgroundColor);
      if (alpha > 0.95) return rgb;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0] : [1, 1, 1];
  };
  const low = [];
  for (const element of document.querySelectorAll("body *:not(script):not(noscript)")) {
    const hasText = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!hasText || element.closest("svg, :disabled, .unseen") || !element.offsetParent) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(channels(style.color).rgb), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 18.66;
    if (ratio < (isLarge ? 3 : 4.5)) low.push(`${ratio.toFixed(2)} ${element.innerText}`);
  }
  return low;
}"""

# What can be used must have a name that can be said, and a place on the page.
NAMELESS = """() => [...document.querySelectorAll("a, button, input, select, [role=button]")]
  .filter((each) => {
    const label = each.closest("label")?.innerText ?? "";
    const said = each.getAttribute("aria-label") ?? each.textContent ?? "";
    return !(said + label).trim();
  })
  .map((each) => each.outerHTML.slice(0, 200))"""

# Landmarks of one name cannot be told apart by who jumps from one to the next.
LIKE_NAMED = """() => [...document.querySelectorAll("section[aria-label], [role=region]")]
  .map((each) => each.getAttribute("aria-label"))
  .filter((name, index, names) => names.indexOf(name) !== index)"""

OFF_SCREEN = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def addresses(look: Any) -> list[str]:
    found = ["#/", "#/jobmanager", "#/jobmanager/logs"]
    if not look.jobs:
        return found
    job = look.jobs[0]
    base = f"#/jobs/{job.jid}"
    views = ("overview", "history", "summary", "configuration", "timeline")
    found += [f"{base}/graph", f"{base}/graph/{job.vertex(4)}"]
    found += [f"{base}/checkpoints/{view}" for view in views]
    return found + [f"{base}/{tab}" for tab in ("state", "exceptions", "configuration", "logs")]


@pytest.mark.parametrize(
    ("name", "scheme", "size"),
    [
        ("normal", "light", "wide"),
        ("normal", "dark", "phone"),
        ("empty", "dark", "wide"),
        ("failing", "light", "phone"),
        ("huge", "light", "phone"),
        ("huge", "dark", "wide"),
    ],
)
def test_every_page(
    name: str,
    scheme: str,
    size: str,
    serve: Callable[..., Any],
    open_tab: Callable[..., Any],
) -> None:
    server = serve(name)
    tab = open_tab(server.url, scheme=scheme, size=size)
    for address in addresses(server.look):
        tab.go(f"{server.url}/{address}")
        tab.page.wait_for_selector("h1")
        tab.until(lambda: tab.page.locator("[aria-busy]").count() == 0, f"{address} keeps waiting")
        assert tab.page.evaluate(OFF_SCREEN) == 0, f"{address} is wider than the screen"
        assert tab.page.evaluate(NAMELESS) == [], address
        assert tab.page.evaluate(LIKE_NAMED) == [], address
        assert tab.page.evaluate(LOW_CONTRAST) == [], address
        assert tab.page.evaluate("window.hacked") is None, f"{address} ran what data said"
        assert len(tab.text()) > 20, f"{address} is empty"


def test_markup_in_names_is_text(serve: Callable[..., Any], open_tab: Callable[..., Any]) -> None:
    server = serve("huge")
    job = server.look.jobs[0]
    tab = open_tab(server.url, f"#/jobs/{job.jid}")
    tab.page.wait_for_selector(".stage")
    assert job.name.strip() in tab.page.locator("h1").get_attribute("title")
    assert tab.page.locator("main img, main script").count() == 0
    tab.go(f"{server.url}/#/jobs/{job.jid}/exceptions")
    tab.page.wait_for_selector(".trace")
    assert "<script>window.hacked=1</script>" in tab.text(".trace")
    assert tab.page.locator("main img, main script").count() == 0


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        ("#/", "penstock run -d my_job.py"),
        ("#/jobmanager/logs", "has not written anything yet"),
        (f"#/jobs/{'0' * 32}", "There is no such job"),
    ],
    ids=["jobs", "log", "unknown-job"],
)
def test_nothing_to_show_says_what_to_do(
    address: str, advice: str, serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    # The browser itself reports the 404 of the unknown job.
    tab = open_tab(serve("empty").url, may_complain=True)
    tab.page.evaluate("address => { location.hash = address }", address)
    tab.until(lambda: advice in tab.text(), advice)


def test_a_job_without_checkpoints_says_how_to_switch_them_on(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    tab = open_tab(server.url, f"#/jobs/{server.look.jobs[1].jid}/checkpoints/history")
    tab.until(lambda: "execution.checkpointing.interval" in tab.text(), "no advice")
