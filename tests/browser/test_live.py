"""What is recorded appears by itself; a lost connection shows and heals; a hidden tab rests."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import BrowserContext, Page, Route, WebSocketRoute, expect

from .conftest import recorded

HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_a_new_run_and_its_progress_appear_without_reloading(page: Page, recorder: Callable[..., Any]) -> None:
    page.goto("/runs?search=appears by itself")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="appears by itself")).to_have_count(0)
    with recorder(name="appears by itself") as run:
        assert run.flush(timeout_seconds=30)
        expect(page.get_by_role("link", name="appears by itself")).to_be_visible()
        row = page.get_by_role("row", name="appears by itself")
        expect(row).to_contain_text("running")
        run.log({"loss": 1.0}, step=3)
    expect(row).to_contain_text("completed")


def test_turns_of_a_running_rollout_appear_as_they_are_recorded(page: Page, recorder: Callable[..., Any]) -> None:
    with recorded(recorder(name="turn by turn")) as run, run.rollout(task_description="walk") as rollout:
        rollout.log_turn(observation="the first room", action="go on")
        run.flush(timeout_seconds=30)
        page.goto(f"/rollouts/{rollout.id}")
        expect(page.get_by_text("the first room")).to_be_visible()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        rollout.log_turn(observation="the second room", action="stop")
        assert run.flush(timeout_seconds=30)
        expect(page.get_by_text("the second room")).to_be_visible()


def test_a_lost_connection_is_shown_and_heals(
    open_context: Callable[..., BrowserContext], recorder: Callable[..., Any]
) -> None:
    context = open_context()
    page = context.new_page()
    sockets: list[WebSocketRoute] = []
    away = False

    def line(socket: WebSocketRoute) -> None:
        if away:
            socket.close()
            return
        sockets.append(socket)
        socket.connect_to_server()

    def request(route: Route) -> None:
        if away:
            route.abort("connectionrefused")
        else:
            route.continue_()

    page.route_web_socket("**/realtime/**", line)
    page.route("**/rest/**", request)
    page.goto("/runs?search=recorded meanwhile")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    away = True
    sockets[-1].close()
    expect(page.get_by_text("Connection lost")).to_be_visible()
    with recorded(recorder(name="recorded meanwhile")):
        pass
    expect(page.get_by_role("link", name="recorded meanwhile")).to_have_count(0)
    away = False
    expect(page.get_by_text("Live", exact=True)).to_be_visible(timeout=20_000)
    expect(page.get_by_role("link", name="recorded meanwhile")).to_be_visible()


def test_a_hidden_tab_rests_and_catches_up(page: Page, recorder: Callable[..., Any]) -> None:
    page.goto("/runs?search=while hidden")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.evaluate(HIDE, True)
    expect(page.get_by_text("Paused")).to_be_visible()
    # What was asked before may still be told of.
    page.wait_for_timeout(1_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with recorded(recorder(name="while hidden")):
        pass
    page.wait_for_timeout(2_500)
    assert [url for url in asked if "/rest/" in url] == []
    page.evaluate(HIDE, False)
    expect(page.get_by_role("link", name="while hidden")).to_be_visible()


def test_nothing_is_read_while_nothing_changes(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/runs?search=nobody records this")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    # However long the page takes to open, and its second look after listening began: then nothing more is asked.
    for _ in range(15):
        asked.clear()
        page.wait_for_timeout(4_000)
        if not asked:
            return
    raise AssertionError(f"still asks: {asked}")


def test_a_page_whose_code_cannot_be_had_says_so_and_is_loaded_when_the_server_answers(page: Page) -> None:
    page.goto("/runs")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    page.route(re.compile("/(assets/.*|config.json)$"), lambda route: route.abort("connectionrefused"))
    page.get_by_role("link", name="Members").click()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    page.unroute_all()
    expect(page.get_by_role("heading", name="Members", level=1)).to_be_visible()


def test_a_release_of_the_server_that_renames_the_code_of_pages_is_loaded_by_who_has_the_last_one_open(
    page: Page,
) -> None:
    page.goto("/runs")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    answered: list[int] = []
    reloaded: list[str] = []

    def document(route: Route) -> None:
        reloaded.append(route.request.url)
        route.continue_()

    def code(route: Route) -> None:
        # What the last release named so is not there any more.
        answered.append(200 if reloaded else 404)
        route.continue_() if reloaded else route.fulfill(status=404, body="not found")

    page.route(re.compile("/members$"), document)
    page.route(re.compile("/assets/"), code)
    page.get_by_role("link", name="Members").click()
    expect(page.get_by_role("heading", name="Members", level=1)).to_be_visible()
    assert 404 in answered
    assert len(reloaded) == 1
