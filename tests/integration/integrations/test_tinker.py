"""What tinker-cookbook's loops log and roll out is in the record, token for token."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chz
import pytest
import tinker
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl import metric_util, rollout_logging, train
from tinker_cookbook.rl.rollout_logging import RolloutSummaryExportConfig, RolloutSummaryGroup
from tinker_cookbook.rl.types import RolloutError, StopReason, Trajectory, TrajectoryGroup, Transition
from tinker_cookbook.utils import ml_log

import openmanus_rl
from openmanus_rl.integrations.tinker import OpenManusLogger, log_trajectory_groups, recording
from openmanus_rl.records.ids import new_id

from ..recorder.conftest import Query, wait_until

pytestmark = pytest.mark.usefixtures("recorder_env")


@chz.chz
class Config:
    model_name: str = "tiny"
    learning_rate: float = 1e-4


class Words:
    """Makes text of tokens as a tokenizer does."""

    def decode(self, token_ids: list[int], /) -> str:
        return " ".join(f"w{token}" for token in token_ids)


def transition(seen: list[int], done: list[int], reward: float, **further: Any) -> Transition:
    action = TokensWithLogprobs(tokens=done, maybe_logprobs=[-0.5 * token for token in done])
    return Transition(
        ob=tinker.ModelInput.from_ints(seen),
        ac=action,
        reward=reward,
        episode_done=further.pop("last", False),
        **further,
    )


def two_groups() -> list[TrajectoryGroup]:
    end = tinker.ModelInput.from_ints([])
    two_turns = Trajectory(
        transitions=[
            transition([1, 2], [3, 4], 0.0, logs={"note": "look"}),
            transition([1, 2, 3, 4, 5], [6], 1.0, last=True, metrics={"parse_error_masked": 1.0}),
        ],
        final_ob=end,
        stop_reason=StopReason.COMPLETED,
    )
    cut = Trajectory(
        transitions=[transition([1, 2], [7, 8], 0.25, last=True)], final_ob=end, stop_reason=StopReason.MAX_TOKENS
    )
    alone = Trajectory(transitions=[transition([9], [10], 2.0, last=True)], final_ob=end)
    return [
        TrajectoryGroup([two_turns, cut], [0.5, 0.0], [{"score": 3.0}, {}], [RolloutError("TimeoutError", "too slow")]),
        TrajectoryGroup([alone], [0.0], [{}]),
    ]


def rollouts(query: Query, run_id: str) -> list[dict[str, Any]]:
    return query(
        """
        select s.step, g.number, g.task_description as task, g.metadata as group_metadata, r.id, r.status,
          r.total_reward, r.step_count, r.metadata, r.policy_version
        from rollouts r join rollout_groups g on g.id = r.group_id
          left join training_steps s on s.id = g.training_step_id
        where r.training_run_id = %s order by r.episode_number
        """,
        run_id,
    )


def turns(query: Query, rollout_id: str) -> list[dict[str, Any]]:
    return query(
        """
        select t.observation, t.action, t.info, generation_prompt(n.id) as prompt, n.completion_ids, n.logprobs, n.mask,
          n.advantages, n.finish_reason,
          (select jsonb_object_agg(w.reward_type, w.reward) from rewards w
           where w.rollout_id = t.rollout_id and w.step_number = t.step_number) as rewards
        from agent_states t join generations n on n.agent_state_id = t.id where t.rollout_id = %s order by t.step_number
        """,
        rollout_id,
    )


def test_a_logger_beside_the_cookbooks_own_records_config_metrics_and_texts(query: Query, tmp_path: Path) -> None:
    ours = OpenManusLogger(name="cookbook", environment="words")
    logger = ml_log.MultiplexLogger([ml_log.JsonLogger(tmp_path), ours])
    logger.log_hparams(Config())
    logger.log_metrics({"loss": 0.5, "time": {"sample": 1.5}, "note": "no number", "none": None}, step=0)
    logger.log_metrics({"loss": 0.25}, step=1)
    logger.log_metrics({"late": 7})
    logger.log_long_text("sample", "a long text\n" * 100)
    logger.sync()
    logger.close()
    run_id = ours.run.id
    wait_until(lambda: query("select 1 from training_runs where id = %s and status = 'completed'", run_id) != [])

    (run,) = query("select * from training_runs where id = %s", run_id)
    assert run["config"] == {"model_name": "tiny", "learning_rate": 1e-4}
    points = query("select name, step, value from metrics where training_run_id = %s order by name, step", run_id)
    assert [tuple(point.values()) for point in points] == [
        ("late", 1, 7.0), ("loss", 0, 0.5), ("loss", 1, 0.25), ("time/sample", 0, 1.5),
    ]  # fmt: skip
    (kept,) = query("select * from media where training_run_id = %s", run_id)
    assert (kept["kind"], kept["content_type"], kept["metadata"]) == ("file", "text/plain", {"key": "sample"})
    assert hashlib.sha256(b"a long text\n" * 100).hexdigest() in kept["path"]


def test_trajectory_groups_are_groups_of_rollouts_token_for_token(query: Query) -> None:
    groups = two_groups()
    with openmanus_rl.init("tinker", environment="words") as run:
        log_trajectory_groups(run, 5, groups, tags=[["math"], []], policy_versions=[4, 4], tokenizer=Words())
        assert run.flush(timeout_seconds=30)
    found = rollouts(query, run.id)
    assert [(row["step"], row["number"], row["task"]) for row in found] == [
        (5, 0, "w1 w2"),
        (5, 0, "w1 w2"),
        (5, 1, "w9"),
    ]
    assert [(row["status"], row["total_reward"], row["step_count"]) for row in found] == [
        ("completed", 1.5, 2), ("truncated", 0.25, 1), ("completed", 2.0, 1),
    ]  # fmt: skip
    assert found[0]["group_metadata"] == {"tags": ["math"], "rollout_errors": ["TimeoutError: too slow"]}
    assert (found[0]["metadata"], found[0]["policy_version"]) == ({"metrics": {"score": 3.0}}, 4)

    first, second = turns(query, found[0]["id"])
    assert (first["observation"], first["action"], first["info"]) == ("w1 w2", "w3 w4", {"logs": {"note": "look"}})
    assert (first["prompt"], first["completion_ids"], first["logprobs"]) == ([1, 2], [3, 4], [-1.5, -2.0])
    # Centred in the group, as the cookbook trains: 1.5 and 0.25.
    assert (first["mask"], first["advantages"], first["rewards"]) == ([True, True], [0.625], {"step": 0.0})
    assert (second["observation"], second["prompt"], second["completion_ids"]) == ("w5", [1, 2, 3, 4, 5], [6])
    # A turn that could not be parsed is left out of training.
    assert (second["mask"], second["advantages"], second["rewards"]) == ([False], [0.0], {"step": 1.0, "group": 0.5})
    (only,) = turns(query, found[1]["id"])
    assert (only["advantages"], only["finish_reason"]) == ([-0.625], "stop")


def test_the_advantages_of_a_loop_go_before_the_cookbooks(query: Query) -> None:
    with openmanus_rl.init("tinker", environment="words") as run:
        log_trajectory_groups(run, 0, two_groups()[1:], advantages=[[0.75]])
        assert run.flush(timeout_seconds=30)
    (row,) = rollouts(query, run.id)
    (turn,) = turns(query, row["id"])
    assert (turn["advantages"], turn["observation"], row["task"]) == ([0.75], None, None)


def test_the_cookbooks_own_loops_are_recorded_inside_a_block(query: Query, tmp_path: Path) -> None:
    before = (
        ml_log.setup_logging,
        rollout_logging.serialize_rollout_summaries,
        metric_util.serialize_rollout_summaries,
    )
    groups = two_groups()
    with recording(environment="words", tokenizer=Words()) as run:
        # As `train.main` does: set up, export what was rolled out, log, close.
        logger = ml_log.setup_logging(str(tmp_path), config=Config(), do_configure_logging_module=False)
        train._maybe_export_rollout_summary_jsonl(
            config=SimpleNamespace(rollout_json_export=True),  # type: ignore[arg-type]
            base_name="train",
            split="train",
            iteration=3,
            groups_P=[RolloutSummaryGroup(group, ["math"], 2) for group in groups],
            store=logger.store,
        )
        evaluator = metric_util.RLTestSetEvaluator.__new__(metric_util.RLTestSetEvaluator)
        evaluator.env_group_builders_P = [SimpleNamespace(logging_tags=lambda: ["test"])]  # type: ignore[list-item]
        evaluator.name = "test"
        export = RolloutSummaryExportConfig(
            split="eval/test", iteration=3, base_name="eval_test", sampling_client_step=3
        )
        evaluator._collect_eval_metrics([groups[1]], export, store=logger.store)
        logger.log_metrics({"reward": 1.25}, step=3)
        logger.close()
        assert run.flush(timeout_seconds=30)
    now = (ml_log.setup_logging, rollout_logging.serialize_rollout_summaries, metric_util.serialize_rollout_summaries)
    assert now == before
    wait_until(lambda: query("select 1 from training_runs where id = %s and status = 'completed'", run.id) != [])
    assert [(row["step"], row["number"], row["policy_version"]) for row in rollouts(query, run.id)] == [
        (3, 0, 2), (3, 0, 2), (3, 1, 2), (None, 0, 3),
    ]  # fmt: skip
    (evaluation,) = query("select name, step, mean_reward, status from evaluations where training_run_id = %s", run.id)
    assert tuple(evaluation.values()) == ("eval/test", 3, 2.0, "completed")
    assert query("select value from metrics where training_run_id = %s and name = 'reward'", run.id) == [
        {"value": 1.25}
    ]
    assert query("select config from training_runs where id = %s", run.id)[0]["config"]["model_name"] == "tiny"
    assert list(tmp_path.rglob("*train_rollout*.jsonl"))


def test_an_exception_in_the_block_marks_the_run_as_failed(query: Query) -> None:
    runs: list[Any] = []

    def loop() -> None:
        with recording() as run:
            runs.append(run)
            raise ConnectionError("no service")

    with pytest.raises(ConnectionError):
        loop()
    wait_until(lambda: query("select 1 from training_runs where id = %s and status = 'failed'", runs[0].id) != [])


def test_a_logger_that_is_closed_by_an_exception_ends_its_run_as_failed(query: Query) -> None:
    def train_once(error: Exception | None) -> str:
        logger = OpenManusLogger(name="closed")
        try:
            if error is not None:
                raise error
        finally:
            logger.close()
        return logger.run.id

    def state_of(run_id: str) -> tuple[Any, ...]:
        wait_until(lambda: query("select 1 from training_runs where id = %s and status <> 'running'", run_id) != [])
        (found,) = query("select status, status_message from training_runs where id = %s", run_id)
        return found["status"], found["status_message"]

    logger = OpenManusLogger(name="closed")
    try:
        raise ConnectionError("no service")
    except ConnectionError:
        logger.close()
        # Tried again where the exception is handled: another training, with an end of its own.
        again = train_once(None)
    assert state_of(logger.run.id) == ("failed", "ConnectionError: no service")
    assert state_of(again)[0] == "completed"


def test_a_loop_that_trains_again_on_what_a_run_has_is_warned_of(
    query: Query, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"again-{new_id()}"
    for _ in range(2):
        with recording(run_name=name) as run:
            ml_log.setup_logging(str(tmp_path), do_configure_logging_module=False)
            with run.step(0):
                pass
        wait_until(
            lambda: query("select 1 from training_runs where run_name = %s and status = 'completed'", name) != []
        )
    (warning,) = [record.getMessage() for record in caplog.records if "twice" in record.getMessage()]
    assert f"log_path={str(tmp_path)!r}" in warning
