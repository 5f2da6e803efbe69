"""The dashboard in a real browser, on the session's stack: built as it is shipped, signed in by the printed link."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

import openmanus_rl

from .training_data import TrainingData

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "dashboard"
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1360, "height": 900}
# Long enough for a machine that is busy with other tests.
WAIT_MS = 20_000

_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)

expect.set_options(timeout=WAIT_MS)

# What goes round for ever is not waited for.
_FADED = """async () => {
  const ends = one => Number.isFinite(one.effect?.getComputedTiming().endTime);
  await Promise.allSettled(document.getAnimations().filter(ends).map(one => one.finished));
}"""


# A file at a time: as long as it is there, nothing else in this process can run an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all the tests of a file."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium; on Debian: apt-get install chromium")
    assert (DASHBOARD / "dist" / "index.html").exists(), "the dashboard is not built; run scripts/build_dashboard"
    with sync_playwright() as play:
        launched = play.chromium.launch(executable_path=program, args=_FLAGS.split())
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def sign_in_link(stack: Any, cli: Callable[..., Any]) -> Callable[[], str]:
    """Return a function that makes a new link, as `openmanus-rl dashboard` prints it."""

    def make() -> str:
        done = cli("dashboard", "--json", env=embedded_env(stack))
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["dashboard_url"])

    return make


@pytest.fixture(scope="session")
def _kept_session() -> list[Any]:
    """Room for what a browser holds once it is signed in."""
    return []


@pytest.fixture(scope="module")
def signed_in(browser: Browser, sign_in_link: Callable[[], str], _kept_session: list[Any]) -> Any:
    """What a browser holds after it opened the printed link."""
    if not _kept_session:
        context = browser.new_context(ignore_https_errors=True)
        page = context.new_page()
        page.goto(sign_in_link())
        page.get_by_role("heading", name="Runs", exact=True).wait_for()
        _kept_session.append(context.storage_state())
        context.close()
    return _kept_session[0]


@pytest.fixture
def open_context(browser: Browser, stack: Any, signed_in: Any) -> Iterator[Callable[..., BrowserContext]]:
    """Return a function that opens a browser window: `open_context(signed_in=False, dark=True, phone=True)`."""
    opened: list[BrowserContext] = []
    problems: list[str] = []

    def make(*, as_visitor: bool = False, dark: bool = False, phone: bool = False, **options: Any) -> BrowserContext:
        context = browser.new_context(
            base_url=stack.url,
            storage_state=None if as_visitor else signed_in,
            viewport=PHONE if phone else DESKTOP,
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            ignore_https_errors=True,  # A proxy of the tests is its own authority.
            **options,
        )
        context.set_default_timeout(WAIT_MS)
        context.on("weberror", lambda error: problems.append(str(error.error)))
        opened.append(context)
        return context

    yield make
    for context in opened:
        context.close()
    assert problems == [], f"the page threw: {problems}"


@pytest.fixture
def page(open_context: Callable[..., BrowserContext]) -> Page:
    """A page of someone who is signed in."""
    return open_context().new_page()


@pytest.fixture
def visitor(open_context: Callable[..., BrowserContext]) -> Page:
    """A page of someone who is not signed in."""
    return open_context(as_visitor=True).new_page()


@pytest.fixture
def axe() -> Callable[[Page], None]:
    """Return a function that fails if axe finds something serious on a page."""

    def check(page: Page) -> None:
        # A button that has just been enabled has its colour only when it has faded into it.
        page.evaluate(_FADED)
        page.evaluate((DASHBOARD / "node_modules" / "axe-core" / "axe.min.js").read_text())
        report = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        serious = [
            f"{found['id']} ({found['impact']}): {found['help']}: "
            + "; ".join(node["html"][:200] for node in found["nodes"][:4])
            for found in report["violations"]
            if found["impact"] in ("serious", "critical")
        ]
        assert serious == [], "\n".join(serious)

    return check


def check(page: Page, axe: Callable[[Page], None]) -> None:
    """The page has no serious barrier, and nothing of it is wider than a phone."""
    axe(page)
    page.set_viewport_size(PHONE)
    # Charts are drawn anew for the room that they have.
    expect(page.locator("html")).to_have_js_property("scrollWidth", PHONE["width"])
    page.set_viewport_size(DESKTOP)


@pytest.fixture
def data(stack: Any) -> Iterator[TrainingData]:
    """Begin without jobs and sweeps, and leave none to the next test."""
    made = TrainingData(stack.env, stack.database_url)
    made.clear()
    yield made
    made.clear()
    made.db.close()


@pytest.fixture
def recorder(stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return `openmanus_rl.init`, set up to record into the session's stack."""
    for name, value in stack.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OPENMANUS_RL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OPENMANUS_RL_RUN_ID", raising=False)
    return openmanus_rl.init


@contextmanager
def recorded(run: Any) -> Iterator[Any]:
    """Record a run and wait until all of it is in the database, its end too."""
    with run:
        yield run
    assert run.flush(timeout_seconds=30)


@pytest.fixture
def settings(stack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let managers, used in this process, speak to the session's stack."""
    for name, value in stack.env.items():
        monkeypatch.setenv(name, value)


def embedded_env(stack: Any) -> dict[str, str]:
    """The environment of someone at the stack's machine who set nothing, or the database alone if it is external."""
    # Without the address: that names a project somewhere, and its dashboard could be anywhere.
    left_out = ("SUPABASE_",) if (stack.home / "databases").exists() else ("SUPABASE_", "DATABASE_URL")
    at_home = stack.env | {"OPENMANUS_RL_HOME": str(stack.home)}
    return {name: value for name, value in at_home.items() if not name.startswith(left_out)}
