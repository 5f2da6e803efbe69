"""A browser for one rollout: opened at the environment's URL, kept inside of it, and recorded as a video."""

from __future__ import annotations

import logging
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urljoin, urlsplit

from pydantic import Field

from openmanus_rl.agents.base import AgentError, Recorder
from openmanus_rl.agents.browser.chromium import FLAGS, find_chromium, require, start_playwright
from openmanus_rl.agents.browser.gate import Gate, addresses_of
from openmanus_rl.agents.browser.video import duration_seconds, make_seekable
from openmanus_rl.agents.options import Options
from openmanus_rl.sandboxes.base import Sandbox

__all__ = ["BrowserOptions", "BrowserSession", "Outside"]

_logger = logging.getLogger(__name__)
_MOST_INCIDENTS = 50


class Outside(ValueError):
    """A page outside of the environment was asked for."""


class BrowserOptions(Options):
    """How the browser is set up."""

    viewport_width: int = Field(default=1280, ge=200, le=4000)
    viewport_height: int = Field(default=800, ge=200, le=4000)
    video: bool = True
    dialogs: Literal["accept", "dismiss"] = "accept"
    action_timeout_seconds: float = Field(default=15.0, gt=0)
    settle_seconds: float = Field(default=0.5, ge=0, le=30)


class BrowserSession:
    """A running browser with one page. What a page did beside that, such as dialogs, is told by `take_incidents`."""

    def __init__(self, environment: Sandbox, recorder: Recorder, options: BrowserOptions) -> None:
        if environment.url is None:
            raise AgentError("the environment has no URL that a browser could open", code="no_url")
        self.home: str = environment.url
        self.options = options
        self._environment = environment
        self._recorder = recorder
        self._stack = ExitStack()
        self._incidents: dict[str, list[Any]] = {}
        self._started = 0.0
        self._video: Any = None
        self.page: Any = None
        self.errors: Any = require("playwright.sync_api").Error

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            # Closing completes the video.
            with suppress(self.errors):
                self._context.close()
            self._keep_video()

    def _open(self) -> None:
        options = self.options
        self._gate = Gate(addresses_of(self._environment), services=self._environment.services)
        self._stack.callback(self._gate.close)
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="openmanus-rl-video-"))
        playwright = self._stack.enter_context(start_playwright(with_video=options.video))
        size = {"width": options.viewport_width, "height": options.viewport_height}
        try:
            browser = playwright.chromium.launch(
                executable_path=find_chromium(playwright), args=list(FLAGS), proxy={"server": self._gate.url}
            )
            self._stack.callback(self._quietly, browser.close)
            self._context = browser.new_context(
                viewport=size,
                accept_downloads=False,
                service_workers="block",
                # Only the environment can be reached at all, and its certificates are its own.
                ignore_https_errors=True,
                **({"record_video_dir": folder, "record_video_size": size} if options.video else {}),
            )
        except self.errors as error:
            raise AgentError(f"the browser could not be started: {_first_line(error)}", code="no_browser") from error
        self._context.on("dialog", self._answer_dialog)
        self._context.on("page", lambda page: page.on("download", self._refuse_download))
        self.page = self._context.new_page()
        self._started = time.monotonic()
        self._video = self.page.video
        self._context.set_default_timeout(options.action_timeout_seconds * 1000)
        self._open_home()

    def _open_home(self) -> None:
        try:
            self.goto(self.home)
        except self.errors as error:
            self._environment.check()
            raise AgentError(f"{self.home} could not be opened: {_first_line(error)}", code="no_page") from error

    @property
    def video_seconds(self) -> float:
        """Return how far the video is."""
        return round(time.monotonic() - self._started, 3)

    def goto(self, url: str) -> None:
        """Open a page of the environment: a URL, or a path; `Outside` for any other."""
        target = _absolute(url, self.home)
        if not self._gate.allows(target):
            self._gate.refuse(target, how="navigate")
            raise Outside(f"{target} is outside of the environment; only {self.home} can be opened")
        self.page.goto(target, wait_until="domcontentloaded")
        self.settle()

    def settle(self) -> None:
        """Wait until the page has answered an action, within reason, and bring back what opened in a new window."""
        with suppress(self.errors):
            self.page.wait_for_load_state("domcontentloaded")
        self.page.wait_for_timeout(self.options.settle_seconds * 1000)
        self._follow_popups()

    def screenshot(self) -> bytes | None:
        """Return what the page shows, as PNG; None if it does not answer in time."""
        try:
            image: bytes = self.page.screenshot(type="png", animations="allow", caret="initial")
        except self.errors as error:
            self._note("problems", f"no screenshot: {_first_line(error)}")
            return None
        return image

    @property
    def url(self) -> str:
        """Return the address of the page."""
        return str(self.page.url)

    def title(self) -> str:
        """Return the title of the page; empty if it does not answer."""
        try:
            return str(self.page.title())
        except self.errors:
            return ""

    def take_incidents(self) -> dict[str, Any]:
        """Return what happened beside the actions since the last call: blocked addresses, dialogs, downloads."""
        incidents, self._incidents = self._incidents, {}
        attempts = self._gate.take_attempts()
        return {**incidents, "blocked": attempts} if attempts else dict(incidents)

    def _follow_popups(self) -> None:
        """Close other windows and show the last one's page here: there is one page, and it is in the video."""
        popups = [page for page in self._context.pages if page is not self.page]
        if not popups:
            return
        with suppress(self.errors):
            popups[-1].wait_for_load_state("domcontentloaded", timeout=2000)
        target = popups[-1].url
        for popup in popups:
            self._note("popups", popup.url)
            with suppress(self.errors):
                popup.close()
        if self._gate.allows(target):
            with suppress(self.errors):
                self.page.goto(target, wait_until="domcontentloaded")

    def _answer_dialog(self, dialog: Any) -> None:
        self._note("dialogs", {"type": dialog.type, "message": dialog.message[:1000]})
        with suppress(self.errors):
            if self.options.dialogs == "accept":
                dialog.accept(dialog.default_value)
            else:
                dialog.dismiss()

    def _refuse_download(self, download: Any) -> None:
        self._note("downloads", download.url[:500])

    def _note(self, kind: str, fact: Any) -> None:
        facts = self._incidents.setdefault(kind, [])
        if len(facts) < _MOST_INCIDENTS:
            facts.append(fact)

    def _quietly(self, close: Any) -> None:
        with suppress(self.errors):
            close()

    def _keep_video(self) -> None:
        """Log the video. A rollout is not lost because its video is."""
        if self._video is None:
            return
        try:
            path = make_seekable(Path(self._video.path()))
            if path is None:
                _logger.warning("the browser left no video that can be played")
                return
            seconds = duration_seconds(path)
            self._recorder.log_media(path, kind="video", duration_ms=None if seconds is None else seconds * 1000)
        except (self.errors, OSError, AgentError) as error:
            _logger.warning("the video was not kept: %s", error)


def _absolute(url: str, home: str) -> str:
    url = url.strip()
    first = url.partition("/")[0]
    if not urlsplit(url).scheme and not url.startswith(("/", "?", "#")) and ("." in first or ":" in first):
        # A host without a scheme, as people type it.
        return f"http://{url}"
    return urljoin(home, url)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
