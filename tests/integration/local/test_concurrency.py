"""However many start at once, one stack runs and everyone uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

ASK = """
from openmanus_rl.local.embedded import ensure_stack
print(ensure_stack().url)
"""


def supervisors(home: Any) -> list[Any]:
    return [process for process in home.processes() if process.name().startswith(("python", "openmanus"))]


def test_two_ups_at_once_end_in_one_stack(fresh_home: Any) -> None:
    both = [fresh_home.spawn("up", "--detach", "--json", "--port", "0") for _ in range(2)]
    reports = []
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, out + err
        reports.append(json.loads(out))
    assert sorted(report["started"] for report in reports) == [False, True]
    assert reports[0]["SUPABASE_URL"] == reports[1]["SUPABASE_URL"]
    assert len(supervisors(fresh_home)) == 1


def test_eight_programs_that_need_a_stack_get_the_same_one(home: Any) -> None:
    command = [sys.executable, "-c", ASK]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    programs = [subprocess.Popen(command, env=home.env, cwd="/", text=True, **pipes) for _ in range(8)]
    results = [program.communicate(timeout=240) for program in programs]
    assert [program.returncode for program in programs] == [0] * 8, results
    assert len({out for out, _ in results}) == 1
    assert len(supervisors(home)) == 1
    # One line, from the one that started it, says what happened and where the data is.
    told = [err for _, err in results if "started the embedded stack" in err]
    assert len(told) == 1
    assert str(home.root) in told[0]
    assert home.status()["healthy"], "the stack outlives the programs"


def test_a_second_up_uses_the_running_stack_and_refuses_another_port(home: Any) -> None:
    first = home.up()
    again = home.run("up")
    assert again.returncode == 0, again.stderr
    assert first["SUPABASE_URL"] in again.stdout
    assert "already" in again.stdout
    hosted = {
        "SUPABASE_URL": "https://abcdefghijklmnopqrst.supabase.co",
        "SUPABASE_ANON_KEY": "sb_publishable_abcdefghijklmnop",
    }
    noted = home.run("up", "--detach", **hosted)
    assert noted.returncode == 0, noted.stderr
    assert f"SUPABASE_URL names {hosted['SUPABASE_URL']}" in noted.stderr, "programs will not use this stack"
    other = home.run("up", "--detach", "--port", str(first["port"] + 1))
    assert other.returncode == 1
    assert first["SUPABASE_URL"] in other.stderr
    assert "openmanus-rl down" in other.stderr


def test_autostart_can_be_turned_off(fresh_home: Any) -> None:
    env = fresh_home.env | {"OPENMANUS_RL_AUTOSTART": "0"}
    done = subprocess.run([sys.executable, "-c", ASK], env=env, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "OPENMANUS_RL_AUTOSTART" in done.stderr
    assert "openmanus-rl up" in done.stderr
    assert not fresh_home.root.exists()


def test_autostart_says_why_it_failed(home: Any) -> None:
    (home.root / "keys.json").write_text("{")
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=home.env, cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "keys.json is damaged" in done.stderr
