"""The backend `skypilot` against a SkyPilot that does and fails as it is told."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.errors import ConnectionFailed, InvalidInput, LaunchError, SettingsError
from openmanus_rl.jobs.backends import skypilot, skypilot_answers, skypilot_log
from openmanus_rl.jobs.backends.base import Attempt, Look, State
from openmanus_rl.jobs.backends.skypilot import SkyPilotBackend
from openmanus_rl.settings import load_settings
from openmanus_rl.skypilot.calls import QuietOutput
from tests.support.fake_sky import ClusterNotUpError, Sky, Status

KEY = "sb_secret_" + "a" * 32
HOSTED = {"SUPABASE_URL": "https://abcdefghijklmnopqrst.supabase.co", "SUPABASE_SERVICE_ROLE_KEY": KEY}
NAME = "omrl-0190aaaabbbbcccc-1"
BOTH = pytest.mark.parametrize("infra", ["k8s", "slurm/one"])
UV = '"$HOME/.local/bin/uv" pip install --quiet --python "$HOME/openmanus-rl-training/bin/python" '


def attempt(infra: str = "k8s", **config: Any) -> Attempt:
    """Return an attempt with a task as the database makes it."""
    asked = config.get("package") or f"openmanus-rl[{config.get('extras', 'training')}]"
    task = {
        "name": NAME,
        "resources": {"infra": infra},
        "envs": {"SUPABASE_URL": None, "RUN_ID": "r"},
        "secrets": {"SUPABASE_SERVICE_ROLE_KEY": None},
        "setup": f"set -e\n{UV}'{asked}'\n",
        "run": "exec python -m openmanus_rl.training.train\n",
    }
    return Attempt(NAME, "0190aaaa-0000-7000-8000-0000bbbbcccc", 1, {"infra": infra, **config}, task)


@pytest.fixture
def sky(monkeypatch: pytest.MonkeyPatch) -> Sky:
    made = Sky()
    monkeypatch.setitem(sys.modules, "sky", made)  # type: ignore[arg-type]
    # Every question is asked anew, but where a test is about that.
    monkeypatch.setattr(skypilot, "_KEEP_SECONDS", 0.0)
    monkeypatch.setattr(skypilot, "_COST_SECONDS", 0.0)
    monkeypatch.setattr(skypilot_log, "_KEEP_SECONDS", 0.0)
    monkeypatch.setattr(skypilot_answers, "_PAUSE_FACTOR", 0.0)
    monkeypatch.setattr(skypilot_log, "_SETTLE_SECONDS", 0.0)
    return made


@pytest.fixture
def make(sky: Sky, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a maker of backends that share a home, as orchestrators that follow one another do."""
    assert sys.modules["sky"] is sky  # type: ignore[comparison-overlap]
    monkeypatch.chdir(tmp_path)

    def one(home: str = "home", **variables: str) -> SkyPilotBackend:
        environ = {**HOSTED, "OPENMANUS_RL_HOME": str(tmp_path / home), **variables}
        return SkyPilotBackend(load_settings(environ=environ, directory=tmp_path))

    return one


@pytest.fixture
def backend(make: Any) -> SkyPilotBackend:
    made: SkyPilotBackend = make()
    return made


def launched(backend: SkyPilotBackend, sky: Sky, infra: str) -> Attempt:
    one = attempt(infra)
    backend.launch(one)
    sky.work()
    return one


# The task


def test_a_task_has_the_address_and_no_secret(backend: SkyPilotBackend, sky: Sky, monkeypatch: Any) -> None:
    monkeypatch.setenv("MODEL_KEY", "model-secret")
    one = attempt(secrets=["MODEL_KEY"])

    backend.launch(one)

    [task] = sky.tasks
    assert task["envs"] == {"SUPABASE_URL": HOSTED["SUPABASE_URL"], "RUN_ID": "r"}
    assert task["secrets"] == {"SUPABASE_SERVICE_ROLE_KEY": None, "MODEL_KEY": None}
    assert sky.secrets == [{"SUPABASE_SERVICE_ROLE_KEY": KEY, "MODEL_KEY": "model-secret"}]
    noted = "".join(path.read_text() for path in backend._root.rglob("*.json"))
    for text in (json.dumps(task), backend.final_yaml(one), noted):
        assert KEY not in text
        assert "model-secret" not in text


def test_a_checkout_is_copied_and_the_shown_task_is_the_real_one(backend: SkyPilotBackend, sky: Sky) -> None:
    import yaml  # type: ignore[import-untyped]

    one = attempt(extras="training,docker")

    backend.launch(one)

    [task] = sky.tasks
    assert task["workdir"] == str(Path(__file__).parents[3])
    assert task["setup"] == f"set -e\n{UV}--editable '.[training,docker]'\n"
    assert yaml.safe_load(backend.final_yaml(one)) == task


def test_a_given_package_stays_and_a_wheel_is_copied(backend: SkyPilotBackend, sky: Sky, tmp_path: Path) -> None:
    backend.launch(attempt(package="git+https://example.org/x"))
    assert "workdir" not in sky.tasks[-1]
    assert sky.tasks[-1]["setup"] == attempt(package="git+https://example.org/x").task["setup"]

    wheel = tmp_path / "openmanus_rl-1-py3-none-any.whl"
    with pytest.raises(InvalidInput, match="no such wheel"):
        backend.final_yaml(attempt(package=str(wheel)))
    wheel.touch()
    assert f"~/openmanus-rl-wheels/{wheel.name}: {wheel}" in backend.final_yaml(attempt(package=str(wheel)))


def test_a_cluster_always_ends_by_itself(backend: SkyPilotBackend, sky: Sky) -> None:
    one = attempt("slurm")

    backend.launch(Attempt(NAME, one.job_id, 1, {"cloud": "slurm"}, one.task))

    assert sky.tasks[-1]["resources"]["autostop"] == {"idle_minutes": 5, "down": True}
    assert sky.calls.count("sky.launch") == 1


def test_a_supabase_on_loopback_is_refused_unless_that_is_meant(make: Any, sky: Sky, monkeypatch: Any) -> None:
    backend = make(SUPABASE_URL="http://127.0.0.1:54321")
    with pytest.raises(SettingsError, match="jobs on other machines cannot reach"):
        backend.launch(attempt())
    assert sky.requests == {}

    monkeypatch.setenv("OPENMANUS_RL_ALLOW_LOOPBACK", "1")
    backend.launch(attempt())
    assert len(sky.requests) == 1


@pytest.mark.parametrize("config", [{"infra": "nosuch"}, {"secrets": ["NOT_SET"]}])
def test_what_can_never_be_launched_is_invalid(config: Any, backend: SkyPilotBackend, sky: Sky) -> None:
    with pytest.raises(InvalidInput):
        backend.launch(attempt(**config))
    assert sky.requests == {}


# Launching once


@BOTH
def test_a_launch_that_was_accepted_is_not_repeated(infra: str, make: Any, sky: Sky) -> None:
    one = attempt(infra)
    make().launch(one)
    # Not listed yet: neither this process nor the next one of this machine asks again.
    for backend in (make(), make()):
        assert backend.look(one).state is State.WAITING
        backend.launch(one)
    sky.work()
    make().launch(one)

    assert len(sky.requests) == 1
    assert make().look(one).state is State.RUNNING


def test_a_cluster_that_another_machine_asked_for_is_found(make: Any, sky: Sky) -> None:
    one = attempt("slurm")
    make("first").launch(one)
    make("second").launch(one)

    assert len(sky.requests) == 1


def test_a_managed_job_that_was_asked_for_twice_is_removed_twice(make: Any, sky: Sky) -> None:
    one = attempt()
    make("first").launch(one)
    make("second").launch(one)
    sky.work()
    assert list(sky.job_names.values()) == [NAME, NAME]
    # The one that `begin_attempt` refused has failed.
    sky.job_statuses[1] = "FAILED"
    assert make("second").look(one).state is State.RUNNING

    make("second").remove(one)

    assert sky.job_statuses == {1: "FAILED", 2: "CANCELLED"}


@BOTH
def test_an_api_server_that_is_down_is_told_as_such_and_loses_nothing(infra: str, make: Any, sky: Sky) -> None:
    backend, one = make(), attempt(infra)
    sky.is_unreachable = True
    for do in (
        lambda: backend.launch(one),
        lambda: backend.look(one),
        lambda: backend.remove(one),
        lambda: backend.names(),
        lambda: backend.read_log(one, start=0, max_bytes=10),
    ):
        with pytest.raises(ConnectionFailed, match="Could not connect"):
            do()
    sky.is_unreachable = False

    assert backend.look(one) == Look(State.GONE)
    backend.launch(one)
    assert backend.look(one).state is State.WAITING


def test_a_launch_that_fails_is_lost_with_skypilots_words_and_leaves_nothing(
    backend: SkyPilotBackend, sky: Sky
) -> None:
    sky.failing[NAME] = "\x1b[31mno capacity\nleft\x1b[0m"
    one = launched(backend, sky, "slurm")

    look = backend.look(one)

    assert (look.state, look.reason) == (State.LOST, "SkyPilot could not start it: no capacity left")
    backend.remove(one)
    assert sky.clusters == {}
    with pytest.raises(LaunchError, match="no capacity left"):
        backend.launch(attempt("k8s"))


# Looking


@BOTH
def test_while_a_launch_is_under_way_only_its_request_is_asked_for(infra: str, make: Any, sky: Sky) -> None:
    """What SkyPilot has to look up waits for the launch, and then so does the stop of a job."""
    one = attempt(infra)
    make().launch(one)
    sky.calls.clear()
    backend = make()

    assert backend.look(one).state is State.WAITING
    assert backend.read_log(one, start=0, max_bytes=10) == ""
    assert set(sky.calls) == {"api_status"}
    sky.work()
    assert backend.look(one).state is State.RUNNING
    # An ended launch stays ended.
    sky.calls.clear()
    backend.look(one)
    assert "api_status" not in sky.calls


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("PENDING", Look(State.WAITING, reason="SkyPilot: PENDING")),
        ("SUBMITTED", Look(State.WAITING, reason="SkyPilot: SUBMITTED")),
        ("STARTING", Look(State.WAITING, reason="SkyPilot: STARTING")),
        ("RUNNING", Look(State.RUNNING)),
        ("WINDING_DOWN", Look(State.RUNNING)),
        ("CANCELLING", Look(State.RUNNING)),
        ("RECOVERING", Look(State.LOST, reason="SkyPilot: RECOVERING")),
        ("SUCCEEDED", Look(State.ENDED, exit_code=0)),
        ("CANCELLED", Look(State.ENDED, reason="it was cancelled at SkyPilot")),
        ("FAILED", Look(State.ENDED, exit_code=1, reason="SkyPilot: FAILED")),
        ("FAILED_SETUP", Look(State.ENDED, exit_code=1, reason="SkyPilot: FAILED_SETUP")),
        ("FAILED_PRECHECKS", Look(State.ENDED, exit_code=1, reason="SkyPilot: FAILED_PRECHECKS")),
        ("FAILED_NO_RESOURCE", Look(State.LOST, reason="SkyPilot: FAILED_NO_RESOURCE")),
        ("FAILED_CONTROLLER", Look(State.LOST, reason="SkyPilot: FAILED_CONTROLLER")),
    ],
)
def test_the_states_of_managed_jobs(status: str, expected: Look, backend: SkyPilotBackend, sky: Sky) -> None:
    one = launched(backend, sky, "k8s")
    sky.job_statuses[1] = status

    assert backend.look(one) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("INIT", Look(State.WAITING, reason="SkyPilot: INIT")),
        ("PENDING", Look(State.WAITING, reason="SkyPilot: PENDING")),
        ("SETTING_UP", Look(State.WAITING, reason="SkyPilot: SETTING_UP")),
        ("RUNNING", Look(State.RUNNING)),
        ("SUCCEEDED", Look(State.ENDED, exit_code=0)),
        ("FAILED", Look(State.ENDED, exit_code=1, reason="SkyPilot: FAILED")),
        ("FAILED_SETUP", Look(State.ENDED, exit_code=1, reason="SkyPilot: FAILED_SETUP")),
        ("FAILED_DRIVER", Look(State.LOST, reason="SkyPilot: FAILED_DRIVER")),
        ("CANCELLED", Look(State.ENDED, reason="it was cancelled at SkyPilot")),
    ],
)
def test_the_states_of_jobs_of_clusters(status: str, expected: Look, backend: SkyPilotBackend, sky: Sky) -> None:
    one = launched(backend, sky, "slurm")
    sky.cluster_jobs[NAME] = [status]

    assert backend.look(one) == expected


def test_a_state_that_is_not_known_is_an_error(backend: SkyPilotBackend, sky: Sky) -> None:
    one = launched(backend, sky, "k8s")
    sky.job_statuses[1] = "DREAMING"

    with pytest.raises(LaunchError, match="DREAMING"):
        backend.look(one)


@pytest.mark.parametrize("status", ["RUNNING", "FAILED", "STARTING"])
def test_what_skypilot_began_anew_is_lost_because_its_attempt_is_over(
    status: str, backend: SkyPilotBackend, sky: Sky
) -> None:
    one = launched(backend, sky, "k8s")
    sky.job_statuses[1], sky.job_details[1] = status, {"recovery_count": 1, "failure_reason": "preempted"}

    assert backend.look(one) == Look(State.LOST, reason=f"SkyPilot: {status}, preempted")


def test_a_cluster_that_is_gone_was_lost_if_it_had_been_launched(make: Any, sky: Sky) -> None:
    backend = make()
    assert backend.look(attempt("slurm")) == Look(State.GONE)
    one = launched(backend, sky, "slurm")
    sky.clusters.clear()

    assert backend.look(one) == Look(State.LOST, reason="it is gone from SkyPilot")
    sky.requests.clear()
    # Nobody remembers it any more.
    assert make("other").look(one) == Look(State.GONE)


def test_a_cluster_without_a_job_was_lost(backend: SkyPilotBackend, sky: Sky) -> None:
    sky.clusters[NAME] = Status.UP

    assert backend.look(attempt("slurm")) == Look(State.LOST, reason="its cluster has no job")


def test_a_stopped_controller_has_no_jobs_and_one_that_starts_is_asked_again(
    backend: SkyPilotBackend, sky: Sky
) -> None:
    sky.controller_error = ClusterNotUpError("stopped")
    assert backend.look(attempt()) == Look(State.GONE)
    sky.controller_error = ClusterNotUpError("The controller is starting", Status.INIT)
    with pytest.raises(LaunchError, match="is starting"):
        backend.look(attempt())


def test_answers_are_kept_for_a_few_seconds(make: Any, sky: Sky, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = make()
    one = launched(backend, sky, "k8s")
    monkeypatch.setattr(skypilot, "_KEEP_SECONDS", 60.0)
    for _ in range(5):
        backend.look(one)
    asked = sky.calls.count("queue_v2")
    for _ in range(20):
        backend.look(one)

    assert sky.calls.count("queue_v2") == asked


def test_threads_that_ask_at_once_ask_once_and_leave_the_output_alone(
    make: Any, sky: Sky, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, before = make(), sys.stdout
    one = launched(backend, sky, "k8s")
    monkeypatch.setattr(skypilot, "_KEEP_SECONDS", 60.0)
    backend._forget(NAME)
    asked, real = sky.calls.count("queue_v2"), sky.jobs.queue_v2
    monkeypatch.setattr(sky.jobs, "queue_v2", lambda **options: (time.sleep(0.05), real(**options))[1])

    with ThreadPoolExecutor(8) as pool:
        looks = list(pool.map(lambda _: backend.look(one), range(32)))

    assert looks == [Look(State.RUNNING)] * 32
    assert sky.calls.count("queue_v2") == asked + 1
    assert sys.stdout is before


def test_the_output_is_given_back_when_the_last_thread_has_ended() -> None:
    """Two that overlap: the first to begin is the first to end."""
    before, quiet = sys.stdout, QuietOutput()
    quiet.__enter__()
    quiet.__enter__()
    quiet.__exit__()
    assert sys.stdout is sys.stderr
    quiet.__exit__()

    assert sys.stdout is before


def test_an_end_of_the_launch_is_not_taken_for_a_loss_because_of_an_older_list(
    backend: SkyPilotBackend, sky: Sky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skypilot, "_KEEP_SECONDS", 60.0)
    one = attempt("slurm")
    backend.launch(one)
    assert backend.look(one).state is State.WAITING
    sky.work()
    backend._answers.forget(f"request {NAME}")

    assert backend.look(one).state is State.RUNNING


def test_the_cost_is_skypilots_or_none(backend: SkyPilotBackend, sky: Sky) -> None:
    one = launched(backend, sky, "k8s")
    sky.costs = [{"name": "cluster-1", "total_cost": 1.5}, {"name": "other", "total_cost": 7.0}]
    assert backend.look(one).cost_usd is None
    sky.job_details[1] = {"current_cluster_name": "cluster-1"}
    assert backend.look(one).cost_usd == 1.5
    sky.costs[0]["total_cost"] = 0.0
    assert backend.look(one).cost_usd is None


def test_slurm_has_no_price_to_ask_for(backend: SkyPilotBackend, sky: Sky) -> None:
    one = launched(backend, sky, "slurm")

    assert backend.look(one).cost_usd is None
    assert "cost_report" not in sky.calls


# Stopping and removing


@BOTH
def test_a_stop_waits_for_the_program_and_cancels_it_after_the_grace_period(infra: str, make: Any, sky: Sky) -> None:
    backend = make()
    one = launched(backend, sky, infra)

    backend.stop(one, grace_seconds=3600)

    assert sky.cancelled == []
    assert backend.look(one) == Look(State.RUNNING, was_stopped=True)
    backend.stop(one, grace_seconds=0)
    # Also by the next orchestrator, and once.
    for _ in range(2):
        assert make().look(one) == Look(State.ENDED, reason="it was cancelled at SkyPilot", was_stopped=True)
    assert sky.cancelled == [NAME if infra == "k8s" else (NAME, 1)]


def test_a_stop_after_which_the_program_ends_by_itself_cancels_nothing(backend: SkyPilotBackend, sky: Sky) -> None:
    one = launched(backend, sky, "k8s")
    backend.stop(one, grace_seconds=3600)
    sky.job_statuses[1] = "SUCCEEDED"

    assert backend.look(one) == Look(State.ENDED, exit_code=0, was_stopped=True)
    backend.stop(one, grace_seconds=0)
    assert sky.cancelled == []


@BOTH
def test_a_launch_that_is_stopped_is_given_up(infra: str, backend: SkyPilotBackend, sky: Sky) -> None:
    one = attempt(infra)
    backend.launch(one)

    backend.stop(one, grace_seconds=3600)

    look = backend.look(one)
    assert (look.state, look.exit_code, look.was_stopped) == (State.ENDED, None, True)
    backend.remove(one)
    sky.work()
    assert sky.clusters == {}
    assert sky.job_names == {}


@BOTH
def test_removing_ends_what_runs_and_can_be_repeated(infra: str, backend: SkyPilotBackend, sky: Sky) -> None:
    one = launched(backend, sky, infra)
    sky.clusters["mine"] = Status.UP

    for _ in range(3):
        backend.remove(one)

    assert list(sky.clusters) == ["mine"]
    assert sky.cancelled == ([NAME] if infra == "k8s" else [])
    assert backend.names() == []


def test_a_removal_that_fails_is_told_and_forgets_nothing(backend: SkyPilotBackend, sky: Sky) -> None:
    one = launched(backend, sky, "slurm")
    sky.down_error = RuntimeError("the cloud does not answer")

    with pytest.raises(LaunchError, match="does not answer"):
        backend.remove(one)
    assert backend.names() == [NAME]


def test_names_are_those_of_attempts_only(backend: SkyPilotBackend, sky: Sky) -> None:
    assert backend.names() == []
    assert sky.calls == []  # Where it was never used, SkyPilot's server is not started.
    launched(backend, sky, "k8s")
    sky.job_names |= {2: "omrl-workers-abc-1", 3: "mine", 4: "omrl-0190aaaabbbbcccc-2"}
    sky.clusters |= {"omrl-fast-1": Status.UP, "omrl-0190aaaabbbbdddd-1": Status.INIT}

    assert backend.names() == [NAME, "omrl-0190aaaabbbbcccc-2", "omrl-0190aaaabbbbdddd-1"]
