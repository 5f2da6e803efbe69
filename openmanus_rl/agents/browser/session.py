"""A browser for one rollout: opened at the environment's URL, kept inside of it, and recorded as a video."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urljoin, urlsplit

from pydantic import Field

from openmanus_rl.agents.base import AgentError, Recorder
from openmanus_rl.agents.browser.chromium import FLAGS, find_chromium, require, start_playwright
from openmanus_rl.agents.browser.gate import Gate, addresses_of
from openmanus_rl.agents.browser.loop_thread import LoopThread
from openmanus_rl.agents.browser.video import duration_seconds, make_seekable
from openmanus_rl.agents.options import Options
from openmanus_rl.sandboxes.base import Sandbox

__all__ = ["BrowserOptions", "BrowserSession", "Outside"]

_logger = logging.getLogger(__name__)
_MOST_INCIDENTS = 50
_START_SECONDS = 60.0
_CLOSE_SECONDS = 30.0
# Playwright's own time limits say more about what it waited for: let them be first.
_MARGIN_SECONDS = 2.0
_LOADED: Any = "domcontentloaded"


class Outside(ValueError):
    """A page outside of the environment was asked for."""


class BrowserOptions(Options):
    """How the browser is set up."""

    viewport_width: int = Field(default=1280, ge=200, le=4000)
    viewport_height: int = Field(default=800, ge=200, le=4000)
    video: bool = True
    dialogs: Literal["accept", "dismiss"] = "accept"
    action_timeout_seconds: float = Field(default=15.0, gt=0, le=600)
    settle_seconds: float = Field(default=0.5, ge=0, le=30)


class BrowserSession:
    """A running browser with one page. What a page did beside that, such as dialogs, is told by `take_incidents`."""

    def __init__(self, environment: Sandbox, recorder: Recorder, options: BrowserOptions) -> None:
        if environment.url is None:
            raise AgentError("the environment has no URL that a browser could open", code="no_url")
        self.home: str = environment.url
        self.options = options
        self.errors: Any = require("playwright.async_api").Error
        self._environment = environment
        self._recorder = recorder
        self._resources = ExitStack()
        self._running = AsyncExitStack()
        self._incidents: dict[str, list[Any]] = {}
        self._started = 0.0
        self._context: Any = None
        self._page: Any = None
        self._developer: Any = None

    def __enter__(self) -> Self:
        self._loop = LoopThread()
        self._resources.callback(self._loop.close)
        self._gate = Gate(addresses_of(self._environment), services=self._environment.services)
        self._resources.callback(self._gate.close)
        self._folder = self._resources.enter_context(tempfile.TemporaryDirectory(prefix="openmanus-rl-video-"))
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._resources:
            if self._context is not None:
                # Closing completes the video.
                self._attempt(self._context.close())
                self._keep_video()
            self._attempt(self._running.aclose())

    def _start(self) -> None:
        try:
            self._loop.run(self._open(), seconds=_START_SECONDS)
        except (self.errors, TimeoutError) as error:
            said = [line.partition("[err]")[2].strip() for line in str(error).splitlines() if "[err]" in line]
            reason = "; ".join([_first_line(error), *said[:3]])
            raise AgentError(f"the browser could not be started: {reason}", code="no_browser") from error
        try:
            self.goto(self.home)
        except self.errors as error:
            self._environment.check()
            raise AgentError(f"{self.home} could not be opened: {_first_line(error)}", code="no_page") from error

    async def _open(self) -> None:
        options = self.options
        size = {"width": options.viewport_width, "height": options.viewport_height}
        video = {"record_video_dir": self._folder, "record_video_size": size} if options.video else {}
        playwright = await self._running.enter_async_context(start_playwright(with_video=options.video))
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(playwright), args=list(FLAGS), proxy={"server": self._gate.url}
        )
        self._running.push_async_callback(browser.close)
        self._context = await browser.new_context(
            viewport=size,
            accept_downloads=False,
            service_workers="block",
            # Only the environment can be reached at all, and its certificates are its own.
            ignore_https_errors=True,
            **video,
        )
        self._context.set_default_timeout(options.action_timeout_seconds * 1000)
        self._context.on("dialog", self._answer_dialog)
        self._context.on("page", lambda page: page.on("download", self._refuse_download))
        self._page = await self._context.new_page()
        self._started = time.monotonic()
        self._developer = await self._context.new_cdp_session(self._page)

    def do(self, work: Callable[[Any], Awaitable[Any]], *, seconds: float | None = None) -> Any:
        """Do something with the page; if it does not answer in time, stop its scripts and raise Playwright's error."""
        limit = self.options.action_timeout_seconds if seconds is None else seconds
        try:
            return self._loop.run(_awaited(work, self._page), seconds=limit + _MARGIN_SECONDS)
        except TimeoutError:
            # A script in an endless loop: as if a person had said that the page is to be stopped.
            self._attempt(self._developer.send("Runtime.terminateExecution"), seconds=_MARGIN_SECONDS)
            raise self.errors(f"the page did not answer within {limit:g} s") from None

    @property
    def video_seconds(self) -> float:
        """Return how far the video is."""
        return round(time.monotonic() - self._started, 3)

    @property
    def url(self) -> str:
        """Return the address of the page."""
        return str(self._page.url)

    def goto(self, url: str) -> None:
        """Open a page of the environment: a URL, or a path; `Outside` for any other."""
        target = _absolute(url, self.home)
        if not self._gate.allows(target):
            self._gate.refuse(target, how="navigate")
            raise Outside(f"{target} is outside of the environment; only {self.home} can be opened")
        try:
            self.do(lambda page: page.goto(target, wait_until=_LOADED))
        finally:
            # Also what became a download instead.
            self.settle()

    def settle(self) -> None:
        """Wait until the page has answered an action, within reason, and bring back what opened in a new window."""
        with suppress(self.errors):
            self.do(lambda page: page.wait_for_load_state(_LOADED))
        self.wait(self.options.settle_seconds)
        self._follow_popups()

    def wait(self, seconds: float) -> None:
        """Wait; the page goes on meanwhile."""
        time.sleep(seconds)

    def screenshot(self) -> bytes | None:
        """Return what the page shows, as PNG; None if it does not answer in time."""
        try:
            image: bytes = self.do(lambda page: page.screenshot(type="png", caret="initial"))
        except self.errors as error:
            self._note("problems", f"no screenshot: {_first_line(error)}")
            return None
        return image

    def title(self) -> str:
        """Return the title of the page; empty if it does not answer."""
        try:
            return str(self.do(lambda page: page.title()))
        except self.errors:
            return ""

    def take_incidents(self) -> dict[str, Any]:
        """Return what happened beside the actions since the last call: blocked addresses, dialogs, downloads."""
        incidents, self._incidents = self._incidents, {}
        attempts = self._gate.take_attempts()
        return {**incidents, "blocked": attempts} if attempts else dict(incidents)

    def _follow_popups(self) -> None:
        """Close other windows and show the last one's page here: there is one page, and it is in the video."""
        popups = [page for page in self._context.pages if page is not self._page]
        if not popups:
            return
        self._attempt(popups[-1].wait_for_load_state(_LOADED, timeout=2000))
        target = popups[-1].url
        for popup in popups:
            self._note("popups", popup.url[:500])
            self._attempt(popup.close(), seconds=_MARGIN_SECONDS)
        if self._gate.allows(target):
            with suppress(self.errors):
                self.do(lambda page: page.goto(target, wait_until=_LOADED))

    async def _answer_dialog(self, dialog: Any) -> None:
        self._note("dialogs", {"type": dialog.type, "message": dialog.message[:1000]})
        with suppress(self.errors):
            await (dialog.accept(dialog.default_value) if self.options.dialogs == "accept" else dialog.dismiss())

    def _refuse_download(self, download: Any) -> None:
        self._note("downloads", download.url[:500])

    def _note(self, kind: str, fact: Any) -> None:
        facts = self._incidents.setdefault(kind, [])
        if len(facts) < _MOST_INCIDENTS:
            facts.append(fact)

    def _attempt(self, work: Any, *, seconds: float = _CLOSE_SECONDS) -> None:
        """Do something whose failure changes nothing, such as closing what has gone."""
        with suppress(self.errors, TimeoutError):
            self._loop.run(_awaited(lambda _: work, None), seconds=seconds)

    def _keep_video(self) -> None:
        """Log the video. A rollout is not lost because its video is."""
        if self._page is None or self._page.video is None:
            return
        try:
            path = make_seekable(Path(self._loop.run(self._page.video.path(), seconds=_CLOSE_SECONDS)))
            if path is None:
                _logger.warning("the browser left no video that can be played")
                return
            seconds = duration_seconds(path)
            self._recorder.log_media(path, kind="video", duration_ms=None if seconds is None else seconds * 1000)
        except (self.errors, TimeoutError, OSError, AgentError) as error:
            _logger.warning("the video was not kept: %s", error)


async def _awaited(work: Callable[[Any], Awaitable[Any]], page: Any) -> Any:
    return await work(page)


def _absolute(url: str, home: str) -> str:
    url = url.strip()
    first = url.partition("/")[0]
    if not urlsplit(url).scheme and not url.startswith(("/", "?", "#")) and ("." in first or ":" in first):
        # A host without a scheme, as people type it.
        return f"http://{url}"
    return urljoin(home, url)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
