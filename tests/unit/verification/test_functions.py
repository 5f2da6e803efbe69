"""Functions that judge answers run in processes of their own, and within a time limit."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from openmanus_rl.sandboxes.base import SandboxError
from openmanus_rl.verification import ValidatorSpec, Verdict, verify
from openmanus_rl.verification.rescoring import PastRollout, rescore
from tests.support.agents import Countdown, LocalSandbox

JUDGES = '''
import os, re, subprocess, sys, time

def judge(answer, expected, context):
    """Return what the test asked for."""
    if context.options.get("raises"):
        raise RuntimeError("the judge is ill")
    if context.options.get("exits"):
        raise SystemExit(0)
    return context.options["returns"]

def compare(answer, expected, context):
    print("a judge may print", input if sys.stdin.read() else "and read")
    return {"passed": answer == expected, "details": {"process": os.getpid(), "metadata": context.metadata}}

def sleep(answer, expected, context):
    time.sleep(1000)

def backtrack(answer, expected, context):
    return re.match("(a+)+$", "a" * 40 + "b") is None

def leave(answer, expected, context):
    line = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    with open(answer, "w") as file:
        file.write(str(subprocess.Popen([sys.executable, "-c", line], start_new_session=True).pid))
    time.sleep(1000)

def die(answer, expected, context):
    print("the judge is dead")
    os._exit(3)

def shout(answer, expected, context):
    for _ in range(200):
        print("x" * 100_000)
    return True

def look(answer, expected, context):
    sandbox, episode = context.sandbox, context.sandbox.episode
    sandbox.write_file("note.txt", b"hello")
    if sandbox.read_file("note.txt") != b"hello" or sandbox.run("cat note.txt").stdout != b"hello":
        return False
    try:
        sandbox.read_file("no-such-file")
    except FileNotFoundError:
        pass
    return {"passed": episode.step("down").reward == 0.5, "message": f"{sandbox.kind} {episode.state()}"}

def wait_inside(answer, expected, context):
    context.sandbox.run("sleep 1000", timeout_seconds=1000)
    return True

def fail_inside(answer, expected, context):
    context.sandbox.put_folder("a", "b")
    return True
'''


@pytest.fixture(autouse=True)
def _judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "importable"
    folder.mkdir()
    # Under a name of its own: a process that is kept for the next call has imported those of other tests.
    (folder / f"judges_{id(tmp_path)}.py").write_text(JUDGES)
    monkeypatch.syspath_prepend(str(folder))


@pytest.fixture
def judges(tmp_path: Path) -> str:
    return f"judges_{id(tmp_path)}"


def runs(place: Path) -> bool:
    """Return whether the process whose id a file holds is there, and not only waits to be reaped."""
    try:
        return bool(psutil.Process(int(place.read_text())).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def verdict_of(function: str, answer: Any = "a", expected: str | None = "a", **given: Any) -> Verdict:
    sandbox = given.pop("sandbox", None)
    (verdict,) = verify(
        [ValidatorSpec("python", {"function": function, **given})],
        answer=answer,
        expected_answer=expected,
        sandbox=sandbox,
        metadata={"level": 3},
    )
    return verdict


@pytest.mark.parametrize(
    ("options", "found", "score"),
    [
        ({"returns": True}, "pass", 1.0),
        ({"returns": False}, "fail", 0.0),
        ({"returns": 1}, "pass", 1.0),
        ({"returns": 0.99}, "fail", 0.99),
        ({"returns": {"passed": True, "score": 0.3, "message": "fine", "details": {"a": 1}}}, "pass", 0.3),
        ({"returns": {"score": 2}}, "pass", 2.0),
        ({"returns": {"passed": False}}, "fail", 0.0),
        ({"returns": math.nan}, "error", None),
        ({"returns": math.inf}, "error", None),
        ({"returns": None}, "error", None),
        ({"returns": "yes"}, "error", None),
        ({"returns": {}}, "error", None),
        ({"returns": {"passed": "no"}}, "error", None),
        ({"returns": {"pass": True}}, "error", None),
        ({"raises": True}, "error", None),
        ({"exits": True}, "error", None),
    ],
)
def test_a_functions_result_is_its_verdict(
    judges: str, options: dict[str, Any], found: str, score: float | None
) -> None:
    verdict = verdict_of(f"{judges}:judge", options=options)

    assert (verdict.outcome, verdict.score) == (found, score)


def test_a_function_that_is_not_there_is_an_error() -> None:
    assert verdict_of("no_such_module:f").outcome == "error"
    assert verdict_of("json:no_such_function").outcome == "error"


def test_large_details_of_a_function_are_cut(judges: str) -> None:
    returns = {"passed": True, "details": {"log": "x" * 1_000_000}, "message": "y" * 1_000_000}

    verdict = verdict_of(f"{judges}:judge", options={"returns": returns})

    assert verdict.outcome == "pass"
    assert len(str(verdict.details)) + len(verdict.message or "") < 30_000


def test_one_process_judges_many_answers_of_any_kind(judges: str) -> None:
    answers: list[Any] = ["a", None, {"a": [1, math.inf, "\ud800\0"]}, "x" * 10_000_000, 10**5000]

    verdicts = [verdict_of(f"{judges}:compare", answer) for answer in answers]

    assert [verdict.outcome for verdict in verdicts] == ["pass", *["fail"] * 4]
    assert len({(verdict.details or {})["process"] for verdict in verdicts}) == 1
    assert (verdicts[0].details or {})["metadata"] == {"level": 3}
    assert (verdicts[0].details or {})["process"] != os.getpid()


@pytest.mark.parametrize("function", ["sleep", "backtrack"])
def test_a_function_that_does_not_return_in_time_is_an_error(judges: str, function: str) -> None:
    verdict = verdict_of(f"{judges}:{function}", timeout_seconds=0.5)

    assert (verdict.outcome, verdict.message) == ("error", f"{judges}:{function} did not return within 0.5 s")
    # The next call gets a process of its own.
    assert verdict_of(f"{judges}:judge", options={"returns": True}).outcome == "pass"


def test_scoring_again_has_the_same_time_limit(judges: str) -> None:
    validator = ValidatorSpec("python", {"function": f"{judges}:sleep", "timeout_seconds": 0.5}, id="v1")

    ((found,),) = rescore([PastRollout("r", status="success", answer="a", validators=[validator])])

    assert found.verdict is not None
    assert (found.verdict.outcome, found.verdict.message) == ("error", f"{judges}:sleep did not return within 0.5 s")
    assert found.status_after == "error"


def test_what_a_function_started_ends_with_its_time(judges: str, tmp_path: Path) -> None:
    place = tmp_path / "pid"

    assert verdict_of(f"{judges}:leave", str(place), timeout_seconds=3).outcome == "error"

    assert not runs(place)


def test_a_function_that_ends_its_process_is_an_error_that_shows_what_it_printed(judges: str) -> None:
    verdict = verdict_of(f"{judges}:die")

    assert verdict.outcome == "error"
    assert verdict.message == f"{judges}:die ended its process (exit code 3: the judge is dead)"


def test_a_function_may_print_a_lot(judges: str) -> None:
    assert verdict_of(f"{judges}:shout").outcome == "pass"


def test_an_answer_that_no_process_can_be_given_is_an_error(judges: str) -> None:
    assert "cannot be called with this answer" in (verdict_of(f"{judges}:compare", lambda: 1).message or "")


def test_a_function_uses_the_sandbox_and_its_episode(judges: str, tmp_path: Path) -> None:
    episode = Countdown()
    sandbox = LocalSandbox(tmp_path, episode=episode)

    verdict = verdict_of(f"{judges}:look", uses_sandbox=True, sandbox=sandbox)

    assert (verdict.outcome, verdict.message) == ("pass", "process {'value': 2}")
    # It is the one that the agent left, not a copy.
    assert episode.value == 2


def test_waiting_for_the_sandbox_counts(judges: str, tmp_path: Path) -> None:
    verdict = verdict_of(f"{judges}:wait_inside", sandbox=LocalSandbox(tmp_path), timeout_seconds=2)

    assert verdict.outcome == "error"
    assert "did not return within 2 s" in (verdict.message or "")


def test_what_the_sandbox_raises_is_raised_in_the_function(judges: str, tmp_path: Path) -> None:
    sandbox = LocalSandbox(tmp_path)
    sandbox.is_dead = True

    assert "NotImplementedError" in (verdict_of(f"{judges}:fail_inside", sandbox=sandbox).message or "")
    assert f"{SandboxError.__name__}: no shell answers" in (
        verdict_of(f"{judges}:wait_inside", sandbox=sandbox).message or ""
    )


def test_several_threads_judge_at_once(judges: str) -> None:
    outcomes: list[str] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(verdict_of(f"{judges}:compare").outcome)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert outcomes == ["pass"] * 4


def test_a_forked_process_judges_in_a_process_of_its_own(judges: str) -> None:
    mine = (verdict_of(f"{judges}:compare").details or {})["process"]
    child = os.fork()
    if child == 0:
        try:
            verdict = verdict_of(f"{judges}:compare")
            os._exit(0 if verdict.outcome == "pass" and (verdict.details or {})["process"] != mine else 1)
        finally:
            os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (verdict_of(f"{judges}:compare").details or {})["process"] == mine


def test_the_process_ends_with_the_one_that_started_it(judges: str, tmp_path: Path) -> None:
    place = tmp_path / "pid"
    judging = (
        "from openmanus_rl.verification import ValidatorSpec, verify\n"
        f"verify([ValidatorSpec('python', {{'function': '{judges}:leave'}})], answer={str(place)!r})\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", judging], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    deadline = time.monotonic() + 60
    while not (place.exists() and place.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)

    process.send_signal(signal.SIGKILL)
    process.wait()

    while runs(place):
        assert time.monotonic() < deadline
        time.sleep(0.05)
