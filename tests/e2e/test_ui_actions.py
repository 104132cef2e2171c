"""What can be asked of a job by its page, and how the page behaves while the service is away."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytest_plugins = ["ui_browser"]
pytestmark = pytest.mark.e2e


def press(tab: Any, name: str) -> None:
    tab.page.get_by_role("button", name=name, exact=True).click()


def test_a_savepoint_is_asked_for_once_and_its_command_copied(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    jid = server.look.jobs[0].jid
    tab = open_tab(server.url, f"#/jobs/{jid}")
    press(tab, "Savepoint")
    tab.page.get_by_label("Directory").fill("/backups/my job")
    tab.page.get_by_label("Native").check()
    press(tab, "Take savepoint")
    notice = tab.page.locator(".notice.done")
    notice.wait_for()
    ((method, path, body, headers),) = server.asked
    assert (method, path) == ("POST", f"/jobs/{jid}/savepoints")
    assert re.fullmatch("[0-9a-f]{32}", body.pop("triggerId"))
    assert body == {
        "target-directory": "/backups/my job",
        "cancel-job": False,
        "formatType": "NATIVE",
    }
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Requested-With"] == "penstock"
    notice.get_by_role("button", name="Copy").click()
    command = "penstock run -d -s '/backups/my job/savepoint-ab12cd-1' <program.py>"
    read = "navigator.clipboard.readText()"
    tab.until(lambda: tab.page.evaluate(read) == command, "the command was not copied")


def test_a_stop_says_whether_to_drain(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    jid = server.look.jobs[0].jid
    tab = open_tab(server.url, f"#/jobs/{jid}")
    press(tab, "Stop")
    tab.page.get_by_label("Drain").check()
    press(tab, "Stop job")
    tab.page.locator(".notice.done").wait_for()
    ((method, path, body, _),) = server.asked
    del body["triggerId"]
    assert (method, path) == ("POST", f"/jobs/{jid}/stop")
    assert body == {"targetDirectory": None, "drain": True, "formatType": "CANONICAL"}


def test_a_rescale_asks_for_the_parallelism(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    jid = server.look.jobs[0].jid
    tab = open_tab(server.url, f"#/jobs/{jid}")
    press(tab, "Rescale")
    tab.page.get_by_role("textbox").fill("6")
    tab.page.locator("dialog").get_by_role("button", name="Rescale", exact=True).click()
    notice = tab.page.locator(".notice.done")
    notice.wait_for()
    assert "Rescaled, from checkpoint 126" in notice.inner_text()
    ((method, path, body, _),) = server.asked
    assert (method, path) == ("PATCH", f"/jobs/{jid}/rescaling?parallelism=6")
    assert re.fullmatch("[0-9a-f]{32}", body.pop("triggerId"))
    assert body == {}


def test_a_cancellation_is_confirmed_first(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    jid = server.look.jobs[0].jid
    tab = open_tab(server.url, f"#/jobs/{jid}")
    press(tab, "Cancel")
    assert "minutes per channel" in tab.text("dialog")
    tab.page.keyboard.press("Enter")  # The button that does nothing has the focus.
    tab.page.locator("dialog").wait_for(state="detached")
    press(tab, "Cancel")
    tab.page.keyboard.press("Escape")
    tab.page.locator("dialog").wait_for(state="detached")
    assert server.asked == []
    press(tab, "Cancel")
    press(tab, "Cancel job")
    tab.page.locator(".notice.done").wait_for()
    ((method, path, body, _),) = server.asked
    assert (method, path, body) == ("PATCH", f"/jobs/{jid}?mode=cancel", {})


def test_a_refusal_is_shown_as_text(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    server.refusal = 409, "Not <b>now</b>: another savepoint is under way."
    # The browser itself reports the status.
    tab = open_tab(server.url, f"#/jobs/{server.look.jobs[0].jid}", may_complain=True)
    press(tab, "Savepoint")
    press(tab, "Take savepoint")
    tab.page.locator(".notice.failed").wait_for()
    assert "Not <b>now</b>: another savepoint is under way." in tab.text(".notice.failed")
    tab.page.get_by_role("button", name="Close: Savepoint failed").click()
    tab.page.locator(".notice").wait_for(state="detached")


def test_a_job_that_has_ended_can_be_asked_nothing(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    ended = next(job for job in server.look.jobs if job.state == "FINISHED")
    tab = open_tab(server.url, f"#/jobs/{ended.jid}/checkpoints")
    tab.page.locator(".latest").wait_for()
    names = ["Savepoint", "Stop", "Cancel", "Checkpoint now"]
    buttons = [tab.page.get_by_role("button", name=name, exact=True) for name in names]
    assert [button.count() for button in buttons] == [0, 0, 0, 0]


def test_the_service_goes_and_comes_back(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    tab = open_tab(server.url, f"#/jobs/{server.look.jobs[0].jid}", may_complain=True)
    tab.page.locator(".stage").first.wait_for()
    server.stop()
    bar = tab.page.locator(".away-bar")
    bar.wait_for()
    assert "Reconnecting" in bar.inner_text()
    assert re.search(r"known at 23:\d\d:\d\d", bar.inner_text())
    assert tab.page.locator("main.away .stage").count() == 7, "the last data is gone"
    assert tab.page.get_by_role("button", name="Savepoint", exact=True).is_disabled()
    server.start_again()
    bar.wait_for(state="detached")
    assert tab.page.locator("main.away").count() == 0
    assert tab.page.get_by_role("button", name="Savepoint", exact=True).is_enabled()


def test_the_way_to_the_leader_is_shown(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server, leader = serve("normal"), serve("normal")
    address = f"#/jobs/{server.look.jobs[0].jid}/exceptions"
    tab = open_tab(server.url, address, may_complain=True)
    tab.page.locator(".trace").first.wait_for()
    # What is no address of the web is never made a link.
    server.leader = "javascript:window.hacked=1"
    server.tell("job")
    bar = tab.page.locator(".away-bar")
    bar.wait_for()
    assert bar.locator("a").count() == 0
    server.leader = f"{leader.url}/"
    bar.get_by_role("button", name="Try now").click()
    bar.locator("a").wait_for()
    assert tab.page.locator("main.away .trace").count() > 0, "the last data is gone"
    bar.locator("a").click()
    tab.page.wait_for_url(f"{leader.url}/{address}")
    tab.page.locator("main:not(.away) .trace").first.wait_for()


def test_a_hidden_tab_asks_nothing(serve: Callable[..., Any], open_tab: Callable[..., Any]) -> None:
    server = serve("normal")
    tab = open_tab(server.url)
    hide = """(hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""

    # What the page asks is counted in the page: answers that are under way belong to no question.
    count = """() => {
      const ask = window.fetch;
      Object.assign(window, { asked: 0, waiting: 0 });
      window.fetch = (...request) => {
        window.asked += 1;
        window.waiting += 1;
        return ask(...request).finally(() => (window.waiting -= 1));
      };
    }"""

    def asks_within(seconds: int) -> bool:
        tab.until(lambda: tab.page.evaluate("window.waiting") == 0, "no answer")
        seen = tab.page.evaluate("window.asked")
        tab.page.clock.fast_forward(1_000 * seconds)
        return bool(tab.page.evaluate("window.asked") > seen)

    tab.page.clock.install()
    tab.page.evaluate(count)
    tab.page.evaluate(hide, True)
    tab.page.evaluate(hide, False)
    tab.until(lambda: asks_within(2), "a page in view does not ask")
    tab.page.evaluate(hide, True)
    assert not asks_within(3_600)
    tab.page.evaluate(hide, False)
    tab.until(lambda: asks_within(2), "it does not ask again")


def test_a_token_is_asked_for_and_sent(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    server.token = "s3cret"
    tab = open_tab(server.url, may_complain=True)
    tab.page.get_by_label("Token").fill("guessed")
    press(tab, "Continue")
    tab.page.get_by_role("alert").wait_for()
    tab.page.get_by_label("Token").fill("s3cret")
    press(tab, "Continue")
    tab.page.get_by_role("link", name="minutes per channel").wait_for()


def test_the_token_in_the_address_is_kept_by_the_tab_alone(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    server.token = "s3cret"
    tab = open_tab(server.url, "#token=s3cret/jobmanager")
    tab.page.get_by_role("heading", name="Job manager").wait_for()
    assert tab.page.evaluate("location.href") == f"{server.url}/#/jobmanager"
    assert tab.page.evaluate("document.cookie + JSON.stringify(localStorage)") == "{}"
    assert set(server.tokens) == {"Bearer s3cret"}
    assert not [path for path in server.fetched if "s3cret" in path]
    # An address with another token, opened in the same tab, is heard too.
    server.token = server.proves_with = "another"
    tab.go(f"{server.url}/#token=another")
    tab.page.get_by_role("link", name="minutes per channel").wait_for()
    assert tab.page.evaluate("location.hash") == "#/"


def test_a_program_that_took_the_port_is_shown_no_token(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    server.token = "s3cret"
    tab = open_tab(server.url, "#token=s3cret", may_complain=True)
    tab.page.get_by_role("link", name="minutes per channel").wait_for()
    server.stop()
    tab.until(lambda: "Reconnecting" in tab.text("body"), "it does not notice")
    server.proves_with = "what the program made up"
    server.tokens.clear()
    asked = server.challenges
    server.start_again()
    tab.page.get_by_role("alert").wait_for()
    assert "does not hold the token of this tab" in tab.text()
    # Nor is it shown the token that somebody enters again.
    tab.page.get_by_label("Token").fill("s3cret")
    press(tab, "Continue")
    tab.until(lambda: server.challenges > asked + 2, "it does not ask who is there")
    assert server.tokens == []
    # The service comes back, with the same token or another one.
    server.proves_with = None
    tab.page.get_by_role("link", name="minutes per channel").wait_for()
    assert set(server.tokens) == {"Bearer s3cret"}


def test_a_service_that_was_started_again_asks_for_its_new_token(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    server.token = "the-first"
    tab = open_tab(server.url, "#token=the-first", may_complain=True)
    tab.page.get_by_role("link", name="minutes per channel").wait_for()
    server.stop()
    server.token = "the-second"
    server.start_again()
    tab.page.get_by_role("alert").wait_for()
    tab.page.get_by_label("Token").fill("the-second")
    press(tab, "Continue")
    tab.page.get_by_role("link", name="minutes per channel").wait_for()
