"""The browser agents in a real Chromium: what they do and see, what they cannot reach, and their video."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.agents.base import AgentError, LimitReached, Limits, SafetyStop, Task
from openmanus_rl.agents.browser import chromium
from openmanus_rl.agents.browser.video import duration_seconds, is_seekable, make_seekable
from openmanus_rl.agents.recording import LimitedRecorder
from openmanus_rl.agents.registry import make_agent

from ...support.agents import (
    LocalSandbox,
    ModelServer,
    Remembered,
    answer_json,
    candidate,
    completion,
    function_call,
)
from .conftest import WebApp

FAST = {"settle_seconds": 0.1, "action_timeout_seconds": 3}
PNG = b"\x89PNG"


def play(
    agent: str,
    sandbox: LocalSandbox,
    *,
    limits: Limits | None = None,
    rollout: Remembered | None = None,
    model: str | None = None,
    **options: Any,
) -> tuple[Any, Remembered]:
    rollout = rollout or Remembered()
    recorder = LimitedRecorder(rollout, limits or Limits())
    task = Task(id="t1", description="Say hello.")
    return make_agent(agent, model=model, options={**FAST, **options}).run(task, sandbox, recorder), rollout


def script(*actions: dict[str, Any]) -> list[dict[str, Any]]:
    return list(actions)


def test_a_script_fills_a_form_and_reads_the_page(sandbox: LocalSandbox) -> None:
    actions = script(
        {"fill": {"#name": "Ada"}},
        {"click": "text=Go"},
        {"wait_for": "h1"},
        {"read": {"greeting": "h1", "code": "#code"}},
        {"answer": {"said": "{greeting}", "code": "{code}"}},
    )
    answer, rollout = play("scripted", sandbox, script=actions)

    assert answer == {"said": "Hello, Ada!", "code": "4711"}
    assert [turn["action"] for turn in rollout.turns[:2]] == actions[:2]
    assert all(turn["images"][0].startswith(PNG) for turn in rollout.turns)
    assert rollout.turns[-1]["observation"].startswith("Hello\nhttp://127.0.0.1")
    offsets = [turn["info"]["video_seconds"] for turn in rollout.turns]
    assert offsets == sorted(offsets)
    (video,) = rollout.media
    assert video["kind"] == "video"
    assert video["duration_ms"] / 1000 > offsets[-1]


def test_the_video_is_seekable_and_shows_each_turn_at_its_offset(sandbox: LocalSandbox, tmp_path: Path) -> None:
    actions = script({"goto": "/red"}, {"sleep": 1}, {"goto": "/blue"}, {"sleep": 1}, {"answer": 1})
    _, rollout = play("scripted", sandbox, script=actions)

    path = tmp_path / "video.webm"
    path.write_bytes(rollout.media[0]["content"])
    assert is_seekable(path)
    assert make_seekable(path) == path
    # Seen when the turn began: the page that the action before it had opened. Half a second later it is still there.
    assert _color_at(path, rollout.turns[1]["info"]["video_seconds"] + 0.5) == "red"
    assert _color_at(path, rollout.turns[3]["info"]["video_seconds"] + 0.5) == "blue"
    _check_mending(path, tmp_path)


def _check_mending(whole: Path, folder: Path) -> None:
    """A video without an index gets one, and what is no video is none."""
    piped = folder / "piped.webm"
    # Written to a pipe, as it would be by a recorder that was killed: neither a duration nor an index.
    command = [
        chromium.find_ffmpeg(),
        "-v",
        "error",
        "-i",
        str(whole),
        "-c",
        "copy",
        "-f",
        "webm",
        "-live",
        "1",
        "pipe:1",
    ]
    piped.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    assert not is_seekable(piped)
    mended = make_seekable(piped)
    assert mended is not None
    assert is_seekable(mended)
    assert duration_seconds(mended) == pytest.approx(duration_seconds(whole), abs=0.5)
    (folder / "none.webm").write_bytes(b"no video")
    assert make_seekable(folder / "none.webm") is None


def _color_at(path: Path, seconds: float) -> str:
    command = [chromium.find_ffmpeg(), "-v", "error", "-ss", str(seconds), "-i", str(path), "-frames:v", "1"]
    command += ["-vf", "scale=1:1", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    red, green, blue = subprocess.run(command, check=True, capture_output=True).stdout[:3]
    return "red" if red > 200 > green + blue else "blue" if blue > 200 > red + green else f"{red} {green} {blue}"


def test_a_page_cannot_leave_and_what_it_tried_is_recorded(sandbox: LocalSandbox, app: WebApp) -> None:
    actions = script({"goto": "/leave"}, {"sleep": 2}, {"read": {"title": "#out"}}, {"answer": "{title}"})
    answer, rollout = play("scripted", sandbox, script=actions)

    assert answer == "out"
    blocked = [attempt for turn in rollout.turns for attempt in turn["info"].get("blocked", [])]
    urls = " ".join(attempt["url"] for attempt in blocked)
    for path in ("fetch", "localhost", "six", "redirected", "beacon", "events", "image", "frame", "worker", "window"):
        assert f"/{path}" in urls, path
    assert "http://example.com/else" in urls
    assert "example.org:443" in urls
    assert {"url": f"127.0.0.1:{app.stranger_port}", "how": "connection"} in blocked
    # Chromium's own errands are not the page's.
    assert "google" not in urls
    assert "invalid" not in urls
    assert rollout.turns[1]["info"]["url"] == f"{app.url}/leave"
    # That the stranger was not reached is checked when the app is closed.


def test_an_agent_cannot_navigate_away(sandbox: LocalSandbox, server: ModelServer, app: WebApp) -> None:
    urls = [
        app.stranger_url,
        "file:///etc/passwd",
        "chrome://version",
        "view-source:x",
        "data:text/html,x",
        "example.com",
    ]
    calls = [("navigate", {"url": url}) for url in [*urls, "/redirect"]]
    server.answers += [answer_json(completion(calls=calls)), answer_json(completion("no way"))]
    _, rollout = play("browser", sandbox, model="m", provider="openai")

    *refused, redirected = rollout.turns[0]["tool_calls"]
    assert all("outside of the environment" in call["error_message"] for call in refused)
    # A redirect of the app is followed, up to the gate.
    assert redirected["success"] is True
    assert rollout.turns[0]["info"]["blocked"] == [
        *({"url": url, "how": "navigate"} for url in urls[:-1]),
        {"url": "http://example.com", "how": "navigate"},
        {"url": f"{app.stranger_url}/redirected", "how": "GET"},
        {"url": f"{app.stranger_url}/favicon.ico", "how": "GET"},
    ]


def test_links_to_files_and_strangers_lead_nowhere(sandbox: LocalSandbox, app: WebApp) -> None:
    actions = script(
        {"goto": "/leave"}, {"click": "#file"}, {"read": {"still": "#out"}}, {"click": "#out"}, {"answer": 1}
    )
    _, rollout = play("scripted", sandbox, script=actions)
    assert rollout.turns[2]["info"]["url"] == f"{app.url}/leave"
    assert f"{app.stranger_url}/out" in str(rollout.turns[3]["info"]["blocked"])


def test_windows_stay_in_the_page_and_dialogs_and_downloads_are_told(sandbox: LocalSandbox, app: WebApp) -> None:
    actions = script(
        {"goto": "/popup"},
        {"click": "#b"},
        {"read": {"shown": "h1"}},
        {"goto": "/popup"},
        {"click": "#o"},
        {"goto": "/dialog"},
        {"click": "#b"},
        {"goto": "/file"},
    )
    rollout = Remembered()
    with pytest.raises(AgentError, match="Download"):
        play("scripted", sandbox, rollout=rollout, script=actions)
    turns = rollout.turns
    assert turns[1]["info"]["popups"] == [f"{app.url}/hello?name=popup"]
    assert turns[2]["tool_calls"][0]["tool_output"] == '{"shown":"Hello, popup!"}'
    # The window of a stranger is closed, and what it was opened from is still there.
    assert turns[5]["info"]["url"] == f"{app.url}/popup"
    assert "/window" in str(turns[4]["info"]["blocked"])
    assert turns[6]["info"]["dialogs"] == [{"type": "confirm", "message": "Really?"}]
    assert turns[7]["observation"].startswith("yes")
    assert turns[7]["info"]["downloads"] == [f"{app.url}/file"]
    assert len(rollout.media) == 1


def test_a_dialog_can_be_dismissed(sandbox: LocalSandbox) -> None:
    actions = script({"goto": "/dialog"}, {"click": "#b"}, {"answer": 1})
    _, rollout = play("scripted", sandbox, dialogs="dismiss", video=False, script=actions)
    assert rollout.turns[2]["observation"].startswith("no")


def test_a_script_that_does_not_fit_the_page_says_where(sandbox: LocalSandbox) -> None:
    rollout = Remembered()
    with pytest.raises(AgentError, match=r"script\[1\]: click: .*Timeout"):
        play(
            "scripted",
            sandbox,
            rollout=rollout,
            action_timeout_seconds=5,  # A page needs some, too, on a busy machine.
            script=script({"goto": "/"}, {"click": "#no"}),
        )
    assert rollout.turns[1]["tool_calls"][0]["success"] is False
    assert len(rollout.media) == 1


def test_an_environment_that_does_not_answer_is_an_error(tmp_path: Path, sandbox: LocalSandbox) -> None:
    del sandbox
    with pytest.raises(AgentError) as error:
        play("scripted", LocalSandbox(tmp_path, url="http://127.0.0.1:9/"), script=script({"goto": "/"}))
    assert error.value.code == "no_page"


def test_gemini_operates_the_page(sandbox: LocalSandbox, server: ModelServer) -> None:
    server.answers += [
        answer_json(
            candidate({"text": "I type.", "thought": True}, function_call("type_text_at", x=200, y=150, text="Ada"))
        ),
        answer_json(candidate(function_call("click_at", x=150, y=280), function_call("wait_5_seconds_"))),
        answer_json(candidate(function_call("submit", answer="Hello, Ada!"))),
    ]
    answer, rollout = play(
        "browser", sandbox, model="gemini-2.5-computer-use-preview", viewport_width=1000, viewport_height=800
    )

    assert answer == "Hello, Ada!"
    first, second, last = rollout.turns
    assert first["thought"] == "I type."
    assert first["images"][0].startswith(PNG)
    assert first["images"] != second["images"]
    assert last["observation"].endswith("/hello?name=Ada")
    assert [call["success"] for call in second["tool_calls"]] == [True, False]
    assert len(rollout.media) == 1
    # The model is given the screenshot after each action, and the page's address.
    response = server.requests[1]["contents"][-1]["parts"][0]["functionResponse"]
    assert response["response"]["url"] == f"{sandbox.url}/"
    assert response["parts"][0]["inlineData"]["mimeType"] == "image/png"
    assert "very-secret-key" not in str(rollout.turns)


def test_another_vision_model_operates_the_page(sandbox: LocalSandbox, server: ModelServer) -> None:
    server.answers += [
        answer_json(completion(calls=[("type", {"x": 200, "y": 125, "text": "Bo", "press_enter": True})])),
        answer_json(completion(calls=[("navigate", {"url": "https://example.com/"}), ("click", {"x": "left"})])),
        answer_json(completion("Hello, Bo!")),
    ]
    answer, rollout = play("browser", sandbox, model="qwen", provider="openai")

    assert answer == "Hello, Bo!"
    assert rollout.turns[1]["observation"].endswith("/hello?name=Bo")
    assert {"url": "https://example.com/", "how": "navigate"} in rollout.turns[1]["info"]["blocked"]
    outside, wrong = rollout.turns[1]["tool_calls"]
    assert "outside of the environment" in outside["error_message"]
    assert wrong["success"] is False
    images = [
        part
        for message in server.requests[0]["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
    ]
    assert images[1]["image_url"]["url"].startswith("data:image/png;base64,")


def test_a_safety_prompt_ends_it_and_is_never_accepted(sandbox: LocalSandbox, server: ModelServer, app: WebApp) -> None:
    safety = {"decision": "require_confirmation", "explanation": "This accepts the terms."}
    server.answers.append(
        answer_json(
            candidate(
                function_call("navigate", url="/blue"), function_call("click_at", x=1, y=1, safety_decision=safety)
            )
        )
    )
    rollout = Remembered()
    with pytest.raises(SafetyStop, match="accepts the terms"):
        play("browser", sandbox, model="gemini-3.5-flash", rollout=rollout)
    assert len(server.requests) == 1
    assert "/blue" not in app.requests
    assert len(rollout.turns) == 1
    assert rollout.turns[0]["images"][0].startswith(PNG)
    assert len(rollout.media) == 1


def test_a_model_that_never_stops_is_cut_off_with_its_video(sandbox: LocalSandbox, server: ModelServer) -> None:
    server.answers += [answer_json(candidate(function_call("scroll_document", direction="down")))] * 9
    rollout = Remembered()
    with pytest.raises(LimitReached):
        play("browser", sandbox, model="gemini-3.5-flash", rollout=rollout, limits=Limits(max_steps=3))
    assert len(rollout.turns) == 3
    assert len(rollout.media) == 1


def test_a_page_that_hangs_does_not_hang_the_agent(sandbox: LocalSandbox, server: ModelServer) -> None:
    server.answers += [
        answer_json(completion(calls=[("navigate", {"url": "/stuck"})])),
        answer_json(completion(calls=[("click", {"x": 15, "y": 15})])),
        answer_json(completion("it hangs")),
    ]
    answer, rollout = play("browser", sandbox, model="m", action_timeout_seconds=1)
    assert answer == "it hangs"
    (call,) = rollout.turns[1]["tool_calls"]
    assert "did not answer" in call["error_message"]
    # Its script was stopped, so that it can be seen and used again.
    assert rollout.turns[2]["images"][0].startswith(PNG)
    assert len(rollout.media) == 1


ACTIONS: list[tuple[str, dict[str, Any]]] = [
    ("open_web_browser", {}),
    ("take_screenshot", {}),
    ("search", {}),
    ("click_at", {"x": 500, "y": 900}),
    ("hover_at", {"x": 1, "y": 999}),
    ("scroll_at", {"x": 500, "y": 500, "direction": "down", "magnitude": 300}),
    ("scroll_document", {"direction": "up"}),
    ("key_combination", {"keys": "ctrl+a"}),
    ("drag_and_drop", {"x": 1, "y": 1, "destination_x": 200, "destination_y": 200}),
    ("double_click", {"x": 10, "y": 10}),
    ("triple_click", {"x": 10, "y": 10}),
    ("middle_click", {"x": 10, "y": 900}),
    ("right_click", {"x": 10, "y": 10}),
    ("mouse_down", {"x": 10, "y": 10}),
    ("mouse_up", {}),
    ("move", {"x": 10, "y": 10}),
    ("press_key", {"key": "+"}),
    ("hotkey", {"keys": ["Control", "a"]}),
    ("key_down", {"key": "shift"}),
    ("key_up", {"key": "shift"}),
    ("scroll", {"x": 5, "y": 5, "direction": "right"}),
    ("wait", {"seconds": 0}),
    ("navigate", {"url": "/hello"}),
    ("go_back", {}),
    ("go_forward", {}),
]
WRONG_ACTIONS: list[tuple[str, dict[str, Any]]] = [
    ("click", {"x": "NaN", "y": 1}),
    ("click", {"x": None, "y": 1}),
    ("click", {}),
    ("scroll", {"direction": "sideways"}),
    ("hotkey", {"keys": "NoSuchKey"}),
    ("hotkey", {"keys": []}),
    ("type", {"text": 5}),
    ("navigate", {"url": ["x"]}),
    ("submit", {}),
]


def test_every_action_of_both_generations_is_known_and_wrong_ones_are_answered(
    sandbox: LocalSandbox, server: ModelServer
) -> None:
    calls = [function_call(name, **arguments) for name, arguments in ACTIONS + WRONG_ACTIONS]
    server.answers += [answer_json(candidate(*calls)), answer_json(candidate({"text": "done"}))]
    _, rollout = play("browser", sandbox, model="gemini-3.5-flash", settle_seconds=0, video=False)

    results = rollout.turns[0]["tool_calls"]
    assert {call["tool_name"]: call.get("error_message") for call in results[: len(ACTIONS)]} == {
        name: None for name, _ in ACTIONS
    }
    assert [call["success"] for call in results[len(ACTIONS) :]] == [False] * len(WRONG_ACTIONS)
    assert rollout.media == []


def test_without_chromium_the_error_says_what_to_install(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chromium, "_PROGRAMS", ())
    with pytest.raises(AgentError, match="playwright install chromium"):
        play("scripted", sandbox, script=script({"goto": "/"}))
    monkeypatch.setenv("OPENMANUS_RL_CHROMIUM", "/no/such/program")
    with pytest.raises(AgentError, match="OPENMANUS_RL_CHROMIUM"):
        play("scripted", sandbox, script=script({"goto": "/"}))


def test_without_the_library_the_error_names_the_extra(sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    with pytest.raises(AgentError, match=r"openmanus-rl\[browser\]"):
        play("scripted", sandbox, script=script({"goto": "/"}))
