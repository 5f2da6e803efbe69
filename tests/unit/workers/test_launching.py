"""What SkyPilot is asked for, and what becomes of its answers."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl import __version__
from openmanus_rl.errors import ConflictError, InvalidInput, LaunchError, SettingsError
from openmanus_rl.settings import load_settings
from openmanus_rl.skypilot import package
from openmanus_rl.skypilot.package import Package, find_package
from openmanus_rl.skypilot.sdk import SkyPilot
from openmanus_rl.skypilot.secrets import find_secrets
from openmanus_rl.skypilot.task import as_yaml
from openmanus_rl.workers.launching.fleet import Fleet, Machine, machine_of
from openmanus_rl.workers.launching.task import Launch, new_name
from tests.support.fake_sky import ClusterNotUpError, Sky, Status

KEY = "sb_secret_" + "a" * 32
HOSTED = {"SUPABASE_URL": "https://abcdefghijklmnopqrst.supabase.co", "SUPABASE_SERVICE_ROLE_KEY": KEY}
URL = HOSTED["SUPABASE_URL"]
RELEASE = Package("openmanus-rl==1.2.3")


def slurm(count: int = 2, **fields: Any) -> Launch:
    return Launch(**{"name": "fast", "infra": "slurm", "count": count, "package": RELEASE, **fields})


@pytest.fixture
def sky(monkeypatch: pytest.MonkeyPatch) -> Sky:
    made = Sky()
    monkeypatch.setitem(sys.modules, "sky", made)  # type: ignore[arg-type]
    return made


def start(home: Path, launch: Launch) -> dict[str, str]:
    return Fleet(home).launch(launch, url=URL, secrets={"SUPABASE_SERVICE_ROLE_KEY": KEY})


# The task


def test_keys_are_secrets_and_not_in_the_task(sky: Sky, tmp_path: Path) -> None:
    start(tmp_path, slurm(count=1))

    assert KEY not in json.dumps(sky.tasks)
    assert sky.tasks[-1]["secrets"] == {"SUPABASE_SERVICE_ROLE_KEY": None}
    assert sky.secrets[-1] == {"SUPABASE_SERVICE_ROLE_KEY": KEY}
    assert KEY not in "".join(path.read_text() for path in (tmp_path / "launches").iterdir())


@pytest.mark.parametrize(("infra", "kind"), [("slurm/one/main", "cluster"), ("k8s", "job"), ("aws/us-east-1", "job")])
def test_only_slurm_has_clusters_which_go_when_their_worker_has_ended(infra: str, kind: str) -> None:
    launch = slurm(infra=infra)

    assert launch.kind == kind
    autostop = launch.task("omrl-fast-1", url=URL, secrets=[])["resources"].get("autostop")
    assert autostop == ({"idle_minutes": 1, "down": True} if kind == "cluster" else None)


def test_the_scripts_of_a_task_are_one_command_each_whatever_the_options_are(tmp_path: Path) -> None:
    """Run them in a real shell, with programs that write down how they were called."""
    called = tmp_path / "called"
    for folder, program in ((".local/bin", "uv"), ("openmanus-rl-worker/bin", "openmanus-rl")):
        path = tmp_path / folder / program
        path.parent.mkdir(parents=True)
        path.write_text(f'#!/bin/sh\necho {program} "$@" >> {called}\n')
        path.chmod(0o755)
    launch = slurm(package=find_package("openmanus-rl==1; touch x"), setup="touch own-setup", max_workers=7)
    task = launch.task("omrl-fast-1", url=URL, secrets=[])

    for part in ("setup", "run"):
        subprocess.run(
            ["bash", "-c", task[part]], check=True, cwd=tmp_path, env={"HOME": str(tmp_path), "PATH": "/bin"}
        )

    venv = f"{tmp_path}/openmanus-rl-worker"
    assert called.read_text().splitlines() == [
        f"uv venv --quiet --python >=3.11 {venv}",
        f"uv pip install --quiet --python {venv}/bin/python openmanus-rl==1; touch x",
        "openmanus-rl worker --name omrl-fast-1 --max-workers 7 --idle-seconds 600",
    ]
    assert (tmp_path / "own-setup").exists()
    assert not (tmp_path / "x").exists()


def test_a_task_is_printed_as_yaml_that_reads_the_same() -> None:
    import yaml  # type: ignore[import-untyped]

    task = slurm(setup="echo ünï # 'x'").task("omrl-fast-1", url=URL, secrets=["A"])

    assert yaml.safe_load(as_yaml(task)) == task


@pytest.mark.parametrize("name", ["", "A", "1a", "a b", "a/../b", "-a", "a-", "a" * 41, "a\n"])
def test_a_name_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="is not a name"):
        slurm(name=name)


def test_a_name_that_a_training_job_may_have_is_refused() -> None:
    with pytest.raises(InvalidInput, match="training jobs"):
        slurm(name="abcdef0123456789")
    assert slurm(name="abcdef012345678").names[0] == "omrl-abcdef012345678-1"


def test_made_names_are_names() -> None:
    assert slurm(name=new_name()).names[0].startswith("omrl-workers-")


# The package


def test_a_checkout_is_copied_and_a_release_is_installed_in_the_same_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_package(extras="browser, docker") == Package(
        "--editable '.[browser,docker]'", workdir=Path(__file__).parents[3]
    )
    monkeypatch.setattr(package, "_find_checkout", lambda: None)
    assert find_package(extras="browser") == Package(f"'openmanus-rl[browser]=={__version__}'")


def test_a_wheel_is_copied(tmp_path: Path) -> None:
    wheel = tmp_path / "openmanus_rl-1-py3-none-any.whl"
    with pytest.raises(InvalidInput, match="no such wheel"):
        find_package(str(wheel))
    wheel.touch()

    found = find_package(str(wheel))

    assert found.file_mounts == {f"~/openmanus-rl-wheels/{wheel.name}": str(wheel)}
    assert found.arguments == f'"$HOME/openmanus-rl-wheels/{wheel.name}"'


# The secrets


@pytest.mark.parametrize("given", [{}, {**HOSTED, "SUPABASE_URL": "http://127.0.0.1:54321"}])
def test_a_supabase_on_loopback_is_refused_with_what_to_do(given: dict[str, str], tmp_path: Path) -> None:
    settings = load_settings(environ=given, directory=tmp_path)

    with pytest.raises(SettingsError, match="hosted project"):
        find_secrets(settings, names=[])


def test_variables_are_passed_on_only_when_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODEL_KEY", "m")
    settings = load_settings(environ=HOSTED, directory=tmp_path)

    assert find_secrets(settings, names=[]) == (URL, {"SUPABASE_SERVICE_ROLE_KEY": KEY})
    assert find_secrets(settings, names=["MODEL_KEY"])[1]["MODEL_KEY"] == "m"
    for missing in ("NOT_SET", "A=B", ""):
        with pytest.raises(InvalidInput, match="no such variable"):
            find_secrets(settings, names=[missing])


# Launching


def test_what_could_not_be_started_is_told_and_removed_and_the_rest_stays(sky: Sky, tmp_path: Path) -> None:
    sky.failing["omrl-fast-2"] = "\x1b[31mno capacity\nleft\x1b[0m"

    failures = start(tmp_path, slurm(count=3))

    assert failures == {"omrl-fast-2": "SkyPilot could not start omrl-fast-2: no capacity left"}
    assert sky.clusters == {"omrl-fast-1": Status.UP, "omrl-fast-3": Status.UP}
    assert [machine.name for machine in Fleet(tmp_path).find([])] == ["omrl-fast-1", "omrl-fast-3"]


@pytest.mark.parametrize("infra", ["slurm", "k8s"])
def test_a_launch_that_failed_as_a_whole_leaves_nothing(infra: str, sky: Sky, tmp_path: Path) -> None:
    sky.failing |= {"omrl-fast-1": "denied", "omrl-fast-2": "denied"}

    with pytest.raises(LaunchError, match="SkyPilot could not start omrl-fast-1: denied"):
        start(tmp_path, slurm(infra=infra))

    assert sky.clusters == {}
    assert Fleet(tmp_path).find([]) == []


def test_an_unknown_infrastructure_is_told_in_skypilots_words(sky: Sky, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"'nosuch' is no infrastructure$"):
        start(tmp_path, slurm(infra="nosuch"))
    assert sky.tasks == []


def test_a_name_that_is_in_use_is_refused_until_its_workers_have_ended(sky: Sky, tmp_path: Path) -> None:
    start(tmp_path, slurm())
    with pytest.raises(ConflictError, match="launched already"):
        start(tmp_path, slurm())
    sky.clusters.clear()

    assert start(tmp_path, slurm()) == {}


def test_an_interrupted_launch_can_be_found_and_ended(
    sky: Sky, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SkyPilot, "launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            start(tmp_path, slurm())
    sky.clusters["omrl-fast-1"] = Status.INIT

    # One that SkyPilot has not begun yet is not forgotten because SkyPilot does not know it.
    asked = Fleet(tmp_path).ask(Fleet(tmp_path).find([]))
    assert {machine.name: machine.state for machine in asked} == {"omrl-fast-1": "INIT", "omrl-fast-2": None}
    assert len(Fleet(tmp_path).find([])) == 2
    Fleet(tmp_path).end(asked)

    assert sky.clusters == {}
    assert Fleet(tmp_path).find([]) == []


# Listing and ending


@pytest.mark.parametrize("infra", ["slurm", "k8s"])
def test_ending_twice_is_no_error_and_touches_nothing_else(infra: str, sky: Sky, tmp_path: Path) -> None:
    start(tmp_path, slurm(infra=infra))
    sky.clusters["omrl-fast"] = sky.clusters["mine"] = Status.UP
    sky.job_names[77] = "mine"
    machines = Fleet(tmp_path).find([])

    Fleet(tmp_path).end(machines)
    Fleet(tmp_path).end(machines)

    assert sky.clusters == {"omrl-fast": Status.UP, "mine": Status.UP}
    assert sky.cancelled == (["omrl-fast-1", "omrl-fast-2"] if infra == "k8s" else [])


def test_jobs_are_listed_with_their_ids_and_launches_that_ended_are_forgotten(sky: Sky, tmp_path: Path) -> None:
    start(tmp_path, slurm(infra="k8s"))
    fleet = Fleet(tmp_path)

    assert [(m.name, m.state, m.job_id) for m in fleet.ask(fleet.find([]))] == [
        ("omrl-fast-1", "RUNNING", 1),
        ("omrl-fast-2", "RUNNING", 2),
    ]
    sky.job_names.clear()
    assert {machine.state for machine in fleet.ask(fleet.find([]))} == {None}
    assert fleet.find([]) == []


def test_no_job_controller_means_no_jobs_but_one_that_is_starting_does_not(sky: Sky) -> None:
    sky.controller_error = ClusterNotUpError("No in-progress managed jobs.")
    assert SkyPilot().find("job", ["omrl-fast-1"]) == {}

    sky.controller_error = ClusterNotUpError("The controller is starting", Status.INIT)
    with pytest.raises(LaunchError, match="The controller is starting"):
        SkyPilot().end("job", ["omrl-fast-1"])


@pytest.mark.parametrize(
    "infra",
    [{}, None, [], {"launcher": "skypilot"}, {"launcher": "skypilot", "kind": "cluster", "name": "training"}],
)
def test_a_worker_cannot_name_a_machine_that_was_not_launched_as_one(infra: Any) -> None:
    assert machine_of({"infra": infra}) is None


def test_a_worker_names_its_machine() -> None:
    infra = json.loads(slurm().task("omrl-fast-2", url=URL, secrets=[])["envs"]["OPENMANUS_RL_WORKER_INFRA"])

    assert machine_of({"infra": infra}) == Machine("omrl-fast-2", "fast", "slurm", "cluster")


def test_without_skypilot_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sky", None)

    with pytest.raises(LaunchError, match=r"openmanus-rl\[skypilot\]"):
        SkyPilot()


def test_importing_skypilot_makes_no_other_library_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sky.py").write_text("import logging\nlogging.basicConfig(level=logging.INFO, force=True)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sky", raising=False)
    root = logging.getLogger()
    before = (list(root.handlers), root.level)

    SkyPilot()

    monkeypatch.delitem(sys.modules, "sky")
    assert (root.handlers, root.level) == before


def test_nothing_launched_means_that_skypilot_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sky", None)
    fleet = Fleet(tmp_path)

    assert fleet.ask(fleet.find([])) == []
    fleet.end([])
