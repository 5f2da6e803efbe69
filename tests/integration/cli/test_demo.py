"""`openmanus-rl demo` records what really happened."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import openmanus_rl
from openmanus_rl.demo.agent import Policy, encode
from openmanus_rl.demo.house import ENVIRONMENT
from openmanus_rl.demo.learner import Episode, Trainer, measure
from openmanus_rl.demo.train import train
from openmanus_rl.recorder import Run
from openmanus_rl.transport.filters import Filter
from openmanus_rl.utils.supabase_db import (
    EvaluationManager,
    EvaluationResultManager,
    GenerationManager,
    MetricManager,
    ModelCheckpointManager,
    RewardManager,
    RolloutGroupManager,
    RolloutManager,
    TaskManager,
    ToolCallManager,
    TrainingRunManager,
    TrainingStepManager,
    ValidationManager,
    ValidatorManager,
)
from openmanus_rl.utils.supabase_storage import StorageManager

from ..conftest import Query
from ..recorder.conftest import wait_until

STEPS = 3
TRAINING_ROLLOUTS = STEPS * 4 * 6
HELD_OUT_TASKS = 32
EVALUATION_STEPS = [0, 1, 2, 3]


def test_every_rollout_is_counted_and_the_run_is_completed(demo: dict[str, Any]) -> None:
    run = TrainingRunManager.get_run(demo["run_id"])
    counts = TrainingRunManager.get_metrics(demo["run_id"], rollout_limit=0)
    assert run["status"] == "completed"
    assert (run["progress"], run["current_step"], run["total_steps"]) == (1.0, STEPS, STEPS)
    assert run["name"] == "recorded"
    assert run["heartbeat_at"] is not None
    assert run["summary"]["final"] == pytest.approx(demo["final"])
    assert demo["rollouts"] == TRAINING_ROLLOUTS
    assert counts["total_rollouts"] == TRAINING_ROLLOUTS + len(EVALUATION_STEPS) * HELD_OUT_TASKS
    assert counts["completed_rollouts"] == counts["total_rollouts"]


def test_records_of_every_kind_arrive_and_none_is_refused(monkeypatch: pytest.MonkeyPatch, query: Query) -> None:
    runs: list[Run] = []
    begin = openmanus_rl.init

    def noting_init(*arguments: Any, **options: Any) -> Run:
        runs.append(begin(*arguments, **options))
        return runs[-1]

    monkeypatch.setattr(openmanus_rl, "init", noting_init, raising=False)
    result = train(steps=1, seed=4, name="every kind")
    (run,) = runs
    assert run.flush()
    stats = run.stats
    assert (stats.queued, stats.rejected, stats.lost, stats.error) == (0, 0, 0, None)
    assert stats.delivered > 0

    def counted(table: str) -> int:
        return int(query(f"select count(*) as n from {table} where training_run_id = %s", run.id)[0]["n"])

    rollouts, turns = 24 + 2 * HELD_OUT_TASKS, counted("agent_states")
    assert counted("rollouts") == rollouts
    assert counted("validations") == 2 * rollouts
    assert turns > result.turn_count > 0
    assert counted("generations") == turns
    assert counted("rewards") > turns > counted("tool_calls") > 0
    assert [counted(table) for table in ("training_steps", "evaluations")] == [1, 2]
    assert [counted(table) for table in ("model_checkpoints", "evaluation_results")] == [1, 1]
    assert len(MetricManager.get_series(run.id)) == 13
    groups = query("select count(distinct group_id) as n from rollouts where training_run_id = %s", run.id)
    assert groups[0]["n"] == 4 + 2 * HELD_OUT_TASKS
    left = query("select count(*) as n from rollouts where training_run_id = %s and status = 'running'", run.id)
    assert left[0]["n"] == 0
    assert StorageManager.download_bytes("logs", f"{run.id}/training.log")


def test_the_recorded_curve_is_what_training_again_with_the_same_seed_gives(demo: dict[str, Any]) -> None:
    series = MetricManager.get_series(demo["run_id"])
    trainer = Trainer(seed=1)
    for step in range(1, STEPS + 1):
        groups = trainer.collect(step)
        update, figures = trainer.learn(groups), measure([episode for group in groups for episode in group])
        index = step - 1
        assert series["success_rate"][index].step == step
        assert series["success_rate"][index].value == figures["success_rate"] == demo["success_rates"][index]
        assert series["mean_reward"][index].value == pytest.approx(figures["mean_reward"])
        assert series["loss"][index].value == pytest.approx(update["loss"])
        assert series["kl"][index].value == pytest.approx(update["kl"])
        assert series["entropy"][index].value == pytest.approx(update["entropy"])
    assert len(series["success_rate"]) == STEPS
    assert [point.step for point in series["eval/success_rate"]] == EVALUATION_STEPS


def test_steps_hold_their_figures_and_groups_of_six_rollouts_of_one_task(demo: dict[str, Any]) -> None:
    steps = TrainingStepManager.list_steps(demo["run_id"]).rows
    assert [step["status"] for step in steps] == ["completed"] * STEPS
    for step in steps:
        groups = RolloutGroupManager.list_groups(training_step_id=step["id"]).rows
        assert [group["rollout_count"] for group in groups] == [6] * 4
        rollouts = [r for group in groups for r in RolloutManager.list_rollouts(group_id=group["id"]).rows]
        rewards = [rollout["total_reward"] for rollout in rollouts]
        assert step["reward_mean"] == pytest.approx(sum(rewards) / len(rewards))
        assert None not in (step["loss"], step["kl"], step["grad_norm"], step["reward_std"], step["tokens"])
        for group in groups:
            tasks = {rollout["task_id"] for rollout in rollouts if rollout["group_id"] == group["id"]}
            assert tasks == {group["task_id"]}


def test_evaluations_are_measured_by_the_database_as_they_were_by_the_demo(demo: dict[str, Any]) -> None:
    rows = EvaluationManager.list_evaluations(training_run_id=demo["run_id"], order_by="step").rows
    assert [row["step"] for row in rows] == EVALUATION_STEPS
    assert [row["kind"] for row in rows] == ["baseline", "eval", "eval", "eval"]
    for row, told in ((rows[0], demo["baseline"]), (rows[-1], demo["final"])):
        assert row["status"] == "completed"
        assert row["success_rate"] == pytest.approx(told["success_rate"])
        assert row["mean_reward"] == pytest.approx(told["mean_reward"])
        assert row["mean_turns"] == pytest.approx(told["mean_turns"])
    assert [row["success_rate"] for row in rows] == pytest.approx([e["success_rate"] for e in demo["evaluations"]])


def test_a_downloaded_checkpoint_does_as_well_as_was_recorded(demo: dict[str, Any], tmp_path: Path) -> None:
    checkpoints = ModelCheckpointManager.list_checkpoints(training_run_id=demo["run_id"]).rows
    assert [row["checkpoint_number"] for row in checkpoints] == EVALUATION_STEPS[1:]
    last = checkpoints[-1]
    file = StorageManager.download_file("model-checkpoints", last["storage_path"], tmp_path)
    assert file.stat().st_size == last["size_bytes"]
    assert StorageManager.get_file("model-checkpoints", last["storage_path"])["sha256"] == last["checksum"]

    trainer = Trainer(seed=1)
    trainer.policy = Policy.load(file)
    examined = measure(trainer.examine())
    result = EvaluationResultManager.list_results(checkpoint=last["id"]).rows[0]
    assert examined["success_rate"] == result["success_rate"] == demo["final"]["success_rate"]
    assert result["episode_count"] == HELD_OUT_TASKS


def test_a_rollouts_rewards_add_up_and_its_logprobs_are_those_of_its_choices(demo: dict[str, Any]) -> None:
    rollout = RolloutManager.get_trajectory(demo["example_rollout_id"])
    assert len(rollout["turns"]) == rollout["step_count"]
    assert sum(reward["reward"] for reward in rollout["rewards"]) == pytest.approx(rollout["total_reward"])
    for turn in rollout["turns"]:
        assert turn["observation"]
        assert turn["thought"].startswith(turn["action"])
        assert turn["memory_summary"]
        (generation,) = GenerationManager.list_generations(agent_state_id=turn["id"]).rows
        commands, probabilities = turn["model_response"]["commands"], turn["model_response"]["probabilities"]
        chosen = probabilities[commands.index(turn["action"])]
        assert math.exp(sum(generation["logprobs"])) == pytest.approx(chosen, rel=1e-3, abs=1e-6)
        assert len(generation["advantages"]) == 1
        assert GenerationManager.get_prompt_ids(generation["id"]) == encode(turn["observation"])


def test_tools_are_recorded_with_their_failures(demo: dict[str, Any]) -> None:
    calls = ToolCallManager.list_tool_calls(training_run_id=demo["run_id"], limit=1000).rows
    assert {call["tool_name"] for call in calls} == {"look", "search_map", "inspect"}
    outcomes = Counter(call["success"] for call in calls)
    assert outcomes[True] > 0
    assert outcomes[False] > 0
    for call in calls:
        assert (call["error_message"] is None) == call["success"]
        assert (call["tool_output"] is None) != call["success"]
        assert call["execution_time_ms"] > 0


def test_validators_judge_every_rollout_and_agree_with_its_status(demo: dict[str, Any]) -> None:
    rollouts = RolloutManager.list_rollouts(training_run_id=demo["run_id"], source="training", limit=1000).rows
    verdicts = ValidationManager.list_validations(training_run_id=demo["run_id"], limit=1000).rows
    right_thing = {row["rollout_id"]: row for row in verdicts if row["validator_name"] == "right_thing"}
    assert {row["verdict"] for row in verdicts} == {"pass", "fail"}
    for rollout in rollouts:
        verdict = right_thing[rollout["id"]]
        assert (verdict["verdict"] == "pass") == (rollout["status"] == "success")
        assert verdict["actual"] == (rollout["result"]["taken"] or "nothing")
        assert ("the " + verdict["expected"]) in rollout["task_description"]


def test_tasks_are_imported_once_however_often_the_demo_runs(demo: dict[str, Any]) -> None:
    def counted(split: str) -> int | None:
        of_seed = [Filter.contains("metadata", {"seed": 1})]
        page = TaskManager.list_tasks(environment=ENVIRONMENT, split=split, filters=of_seed, count=True, limit=1)
        return page.total

    assert counted("train") == 64
    assert counted("test") == HELD_OUT_TASKS
    task = RolloutManager.get_rollout(demo["example_rollout_id"])["task_id"]
    kinds = {row["external_id"]: row["kind"] for row in ValidatorManager.list_validators(task=task).rows}
    assert kinds == {"right_thing": "equals", "in_time": "max_turns"}


def test_the_training_log_can_be_downloaded(demo: dict[str, Any]) -> None:
    log = StorageManager.download_bytes("logs", f"{demo['run_id']}/training.log").decode()
    assert log.count("\n") == STEPS + len(EVALUATION_STEPS)
    assert f"success rate {demo['final']['success_rate']:.3f}" in log


def test_people_see_the_curve_the_comparison_and_where_to_look(cli: Any) -> None:
    done = cli("demo", "--steps", "1", "--seed", "2")
    assert done.code == 0, done.err
    assert "24 rollouts" in done.out
    assert any(bar in done.out for bar in "▁▂▃▄▅▆▇█")
    assert "untrained" in done.out
    run = done.out.rpartition("openmanus-rl runs show ")[2].split()[0]
    assert TrainingRunManager.get_run(run)["config"]["seed"] == 2
    rollout = done.out.rpartition("openmanus-rl rollouts show ")[2].split()[0]
    assert RewardManager.list_rewards(rollout).rows


def test_its_agent_does_three_tasks_in_the_browser_one_of_them_wrong(stack: Any, tmp_path: Path) -> None:
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        pytest.skip("there is no Chromium; on Debian: apt-get install chromium")
    command = [sys.executable, "-m", "openmanus_rl", "demo", "--rollouts", "--json"]
    done = subprocess.run(command, env=stack.env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rollouts = json.loads(done.stdout)["rollouts"]
    tasks = {TaskManager.get_task(rollout["task_id"])["external_id"]: rollout for rollout in rollouts}
    assert {name: rollout["status"] for name, rollout in tasks.items()} == {
        "count-open-orders": "success",
        "ship-an-order": "success",
        "find-what-is-out-of-stock": "failed",
    }
    for rollout in rollouts:
        assert rollout["step_count"] >= 3
        assert len(StorageManager.download_bytes("media", rollout["video_path"])) > 10_000


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--steps", "0"), "--steps"),
        (("--steps", "many"), "--steps"),
        (("--seed", "-1"), "--seed"),
        (("--name", "  "), "--name"),
        (("--name", "x" * 501), "--name"),
    ],
)
def test_a_bad_option_is_named_and_nothing_is_recorded(cli: Any, arguments: tuple[str, ...], named: str) -> None:
    before = TrainingRunManager.list_runs(limit=1, count=True).total
    done = cli("demo", *arguments)
    assert done.code == 2
    assert named in done.message
    assert TrainingRunManager.list_runs(limit=1, count=True).total == before


@pytest.mark.parametrize(
    ("failure", "status", "message"),
    [
        (ValueError("the loss exploded"), "failed", "the loss exploded"),
        (KeyboardInterrupt(), "interrupted", "Keyboard"),
    ],
)
def test_a_run_that_is_broken_off_says_so(
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
    status: str,
    message: str,
) -> None:
    def explode(_: Trainer, __: list[list[Episode]]) -> dict[str, float]:
        raise failure

    monkeypatch.setattr(Trainer, "learn", explode)
    name = f"broken off: {status}"
    with pytest.raises(type(failure)):
        train(steps=1, name=name)
    # The courier delivers the end in the background.
    wait_until(lambda: find_run(name)["status"] != "running")
    run = find_run(name)
    assert run["status"] == status
    assert message in run["status_message"]
    (step,) = TrainingStepManager.list_steps(run["id"]).rows
    assert step["status"] == status


def find_run(name: str) -> dict[str, Any]:
    return dict(TrainingRunManager.list_runs(filters=[Filter.eq("name", name)])[0])
