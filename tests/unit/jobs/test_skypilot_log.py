"""The logs of attempts that SkyPilot runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.jobs.backends.base import State
from openmanus_rl.jobs.backends.skypilot_notes import Notes, exit_code_in, printed_lines
from tests.support.fake_sky import Sky
from tests.unit.jobs.test_skypilot import NAME, attempt, launched, make, sky

__all__ = ["make", "sky"]

MARK = "\x1b[36m(omrl-try-1, pid=28808)\x1b[0m "
HEAD = (
    "Job ID not provided. Streaming the logs of the latest job.\n"
    "\x1b[2m├── \x1b[0m\x1b[2mWaiting for task resources on 1 node.\x1b[0m\n"
    "\x1b[36m(setup pid=28632)\x1b[0m in setup\n"
)
END = (
    "srun: error: vm: task 0: Exited with exit code 3\n"
    "ERROR: \x1b[31mJob 1 failed with return code list:\x1b[0m [3] \n"
    "\x1b[0m\x1b[32m✓ Job finished (status: FAILED).\x1b[0m\x1b[0m\n"
)


def test_a_log_is_what_the_program_printed() -> None:
    shown = HEAD + f"{MARK}hello\n{MARK}(a, pid=1) its own\n{MARK}\n{MARK}bar\u2028\rgo" + "\n" + END

    assert printed_lines(shown) == "in setup\nhello\n(a, pid=1) its own\n\nbar\u2028\rgo\n"
    assert exit_code_in(shown) == 3
    assert exit_code_in(HEAD) is None


def test_the_log_of_a_job_that_runs_only_grows(make: Any, sky: Sky) -> None:
    backend = make()
    one = launched(backend, sky, "slurm")
    shown, whole = HEAD, ""
    for number in range(5):
        shown += f"{MARK}step {number} ü\n"
        sky.logs[NAME] = shown + (MARK + "par" if number % 2 else "")
        # Another process reads the same bytes.
        for reader in (backend, make()):
            text = reader.read_log(one, start=0, max_bytes=10**6)
            assert text.startswith(whole)
            whole = text if number % 2 == 0 else whole
    size = len(whole.encode())

    assert whole.endswith("step 4 ü\n")
    assert backend.read_log(one, start=size, max_bytes=100) == ""
    assert "".join(backend.read_log(one, start=i, max_bytes=1) for i in range(9)) == "in setup\n"


def test_the_log_of_a_job_that_ended_is_complete_and_tells_its_exit_code(make: Any, sky: Sky) -> None:
    backend = make()
    one = launched(backend, sky, "slurm")
    sky.logs[NAME] = HEAD
    backend.read_log(one, start=0, max_bytes=100)
    sky.logs[NAME] = HEAD + f"{MARK}last words\n" + END
    sky.cluster_jobs[NAME] = ["FAILED"]

    look = backend.look(one)

    assert (look.state, look.exit_code) == (State.ENDED, 3)
    assert backend.read_log(one, start=9, max_bytes=100) == "last words\n"
    # The machine has gone since.
    sky.clusters.clear()
    assert make().read_log(one, start=9, max_bytes=100) == "last words\n"


def test_what_is_written_after_the_end_was_told_is_not_missed(
    make: Any, sky: Sky, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = make()
    one = launched(backend, sky, "slurm")
    sky.cluster_jobs[NAME] = ["FAILED"]
    written = iter([HEAD, HEAD + f"{MARK}late\n", HEAD + f"{MARK}late\n" + END])
    real = sky.tail_logs

    def tail(*arguments: Any, **options: Any) -> None:
        sky.logs[NAME] = next(written, sky.logs.get(NAME, ""))
        real(*arguments, **options)

    monkeypatch.setattr(sky, "tail_logs", tail)

    assert backend.look(one).exit_code == 3
    assert backend.read_log(one, start=0, max_bytes=100) == "in setup\nlate\n"


def test_the_log_of_another_machine_is_added(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "a")
    notes.keep_log("one\ntwo\n")
    notes.keep_log("one\n")
    notes.keep_log("")
    assert notes.read_log(0, 100) == "one\ntwo\n"
    notes.keep_log("three\n")
    notes.keep_log("three\nfour\n")

    assert notes.read_log(0, 100) == "one\ntwo\n\n[the log begins anew]\nthree\nfour\n"
    assert notes.read_log(4, 6) == "two\n\n["


@pytest.mark.parametrize("text", ["nul \0 here\n", "half \ud83d\n"])
def test_what_postgres_cannot_store_is_replaced(text: str, tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    notes.keep_log(text)

    kept = notes.read_log(0, 100)
    assert "\0" not in kept
    assert kept.encode().decode() == kept


def test_no_log_is_asked_for_before_it_runs(make: Any, sky: Sky) -> None:
    backend, one = make(), attempt("slurm")
    backend.launch(one)
    assert backend.read_log(one, start=0, max_bytes=10) == ""
    sky.work()
    sky.cluster_jobs[NAME] = ["PENDING"]
    assert backend.read_log(one, start=0, max_bytes=10) == ""

    assert "tail_logs" not in sky.calls
