"""What TRL's trainers generate is in the record: each prompt's completions, rewards, advantages and tokens."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import trl
from datasets import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from openmanus_rl.errors import InvalidInput
from openmanus_rl.integrations._trainer_turns import Tokens, tokens_by_turn, turns_of
from openmanus_rl.integrations.trl import OpenManusCallback, record_rollouts

from ..recorder.conftest import Query, wait_until
from .tiny_models import make_model, make_tokenizer

GROUP_SIZE = 2
PROMPTS = ["find the red ball", "go north", "find the blue ball", "look south"]


class Seen:
    """A reward function that keeps what the trainer shows it."""

    __name__ = "length"

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(self, prompts: Any, completions: Any, completion_ids: Any, **columns: Any) -> list[float]:
        rewards = [float(len(ids)) / 7 + place for place, ids in enumerate(completion_ids)]
        self.calls.append(
            {
                "prompts": prompts,
                "completions": completions,
                "ids": [list(ids) for ids in completion_ids],
                "rewards": rewards,
                "answers": columns["answer"],
                "step": columns["trainer_state"].global_step,
            }
        )
        return rewards


def only_red(prompts: Any, **_: Any) -> list[float | None]:
    return [1.0 if "red" in str(prompt) else None for prompt in prompts]


def make_trainer(
    folder: Path, seen: Seen, prompts: list[Any], kind: Any = GRPOTrainer, config: Any = GRPOConfig, **options: Any
) -> Any:
    places = range(len(prompts))
    dataset = Dataset.from_dict(
        {
            "prompt": prompts,
            "answer": [f"answer {place}" for place in places],
            "hints": [[f"hint {place}"] for place in places],
        }
    )
    args = config(
        **{
            "output_dir": str(folder),
            "max_steps": 2,
            "per_device_train_batch_size": 4,
            "per_device_eval_batch_size": 4,
            "num_generations": GROUP_SIZE,
            "max_completion_length": 5,
            "logging_steps": 1,
            "report_to": [],
            "use_cpu": True,
            "bf16": False,
            "disable_tqdm": True,
            "save_strategy": "no",
            "reward_weights": [1.0, 0.5],
        }
        | options
    )
    return kind(
        model=make_model(),
        args=args,
        reward_funcs=[seen, only_red],
        train_dataset=dataset,
        eval_dataset=dataset.select(range(2)),
        processing_class=make_tokenizer(),
    )


def rollouts(query: Query, run_id: str, parent: str) -> list[dict[str, Any]]:
    return query(
        f"""
        select s.step as parent_step, g.number, g.task_description as task, g.metadata->'columns'->>'answer' as answer,
          r.id, r.total_reward, r.status, r.policy_version, r.source, t.observation, t.action, t.id as turn_id,
          n.prompt_ids, n.completion_ids, n.mask, n.advantages[1] as advantage, n.policy_version as generation_version,
          (select jsonb_object_agg(w.reward_type, w.reward) from rewards w where w.rollout_id = r.id) as rewards
        from rollouts r join rollout_groups g on g.id = r.group_id join {parent} s on s.id = g.{parent[:-1]}_id
          join agent_states t on t.rollout_id = r.id join generations n on n.agent_state_id = t.id
        where r.training_run_id = %s order by s.step, g.number, r.episode_number
        """,
        run_id,
    )


def settled(query: Query, callback: OpenManusCallback) -> str:
    assert callback.run is not None
    run_id = callback.run.id
    wait_until(lambda: query("select 1 from training_runs where id = %s and status = 'completed'", run_id) != [])
    return run_id


@pytest.mark.usefixtures("recorder_env")
def test_every_completion_of_grpo_is_a_rollout_with_what_the_trainer_saw(query: Query, tmp_path: Path) -> None:
    seen = Seen()
    trainer = make_trainer(tmp_path, seen, PROMPTS)
    callback = record_rollouts(trainer)
    assert record_rollouts(trainer) is callback
    advantages: list[float] = []
    trainer.add_callback(_KeepAdvantages(trainer, advantages))
    trainer.train()
    run_id = settled(query, callback)

    assert query("select algorithm, environment from training_runs where id = %s", run_id) == [
        {"algorithm": "grpo", "environment": "prompts"}
    ]
    found = rollouts(query, run_id, "training_steps")
    assert [row["parent_step"] for row in found] == [1] * 4 + [2] * 4
    assert [row["number"] for row in found] == [0, 0, 1, 1] * 2
    tokenizer = make_tokenizer()
    expected = [
        (call["step"], *row) for call in seen.calls
        for row in zip(call["prompts"], call["answers"], call["completions"], call["ids"], call["rewards"], strict=True)
    ]  # fmt: skip
    for row, (step, prompt, answer, completion, ids, reward), advantage in zip(
        found, expected, advantages, strict=True
    ):
        assert (row["task"], row["observation"], row["answer"], row["action"]) == (prompt, prompt, answer, completion)
        assert (row["prompt_ids"], row["completion_ids"]) == (tokenizer(prompt)["input_ids"], ids)
        assert (row["mask"], row["policy_version"], row["generation_version"]) == ([True] * len(ids), step, step)
        components = {"length": pytest.approx(reward)} | ({"only_red": 1.0} if "red" in prompt else {})
        assert row["rewards"] == components
        assert row["total_reward"] == pytest.approx(reward + (0.5 if "red" in prompt else 0.0))
        assert row["advantage"] == pytest.approx(advantage, abs=1e-6)
        assert row["status"] == ("completed" if ids[-1] in (0, 1) else "truncated")
    groups = query("select number, rollout_count from rollout_groups where training_run_id = %s", run_id)
    assert {group["rollout_count"] for group in groups} == {GROUP_SIZE}
    logged = [entry for entry in trainer.state.log_history if "reward" in entry]
    figures = query(
        "select step, reward_mean, reward_std from training_steps where training_run_id = %s order by 1", run_id
    )
    assert [tuple(row.values()) for row in figures] == [
        (entry["step"], pytest.approx(entry["reward"]), pytest.approx(entry["reward_std"])) for entry in logged
    ]


@pytest.mark.usefixtures("recorder_env")
def test_evaluations_and_chats_are_recorded_too(query: Query, tmp_path: Path) -> None:
    seen = Seen()
    chats = [[{"role": "user", "content": prompt}] for prompt in PROMPTS]
    trainer = make_trainer(tmp_path, seen, chats, max_steps=1, eval_strategy="steps", eval_steps=1)
    callback = record_rollouts(trainer, OpenManusCallback(environment="balls"))
    trainer.train()
    run_id = settled(query, callback)

    trained, evaluated = rollouts(query, run_id, "training_steps"), rollouts(query, run_id, "evaluations")
    assert [row["source"] for row in trained + evaluated] == ["training"] * 4 + ["evaluation"] * 4
    calls = [
        row for call in seen.calls for row in zip(call["prompts"], call["completions"], call["rewards"], strict=True)
    ]
    for row, (prompt, completion, _) in zip(trained + evaluated, calls, strict=True):
        assert query("select turn_chat(%s) as chat", row["turn_id"]) == [{"chat": prompt}]
        assert (row["observation"], row["action"]) == (prompt[0]["content"], completion[0]["content"])
    (evaluation,) = query("select * from evaluations where training_run_id = %s", run_id)
    (logged,) = [entry["eval_reward"] for entry in trainer.state.log_history if "eval_reward" in entry]
    assert (evaluation["step"], evaluation["environment"] or "balls", evaluation["status"]) == (1, "balls", "completed")
    assert evaluation["mean_reward"] == pytest.approx(logged)


@pytest.mark.usefixtures("recorder_env")
def test_completions_keep_the_columns_of_the_dataset_and_are_judged_by_a_function(
    query: Query, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    judged: list[Any] = []

    def success(prompt: Any, completion: Any, answer: str, hints: list[str], rewards: dict[str, float]) -> bool | None:
        judged.append((prompt, completion, answer, hints, rewards["length"]))
        if len(judged) == 4:
            raise KeyError("nobody knows")
        return (True, False, None)[len(judged) - 1] if len(judged) < 4 else True

    seen = Seen()
    trainer = make_trainer(tmp_path, seen, PROMPTS, max_steps=1)
    callback = record_rollouts(trainer)
    assert record_rollouts(trainer, success=success) is callback
    trainer.train()
    run_id = settled(query, callback)
    found = query("select status, metadata from rollouts where training_run_id = %s order by episode_number", run_id)
    (call,) = seen.calls
    assert [(row["metadata"]["columns"]["answer"], row["metadata"]["columns"]["hints"]) for row in found] == [
        (answer, [answer.replace("answer", "hint")]) for answer in call["answers"]
    ]
    assert [one[:3] for one in judged] == list(zip(call["prompts"], call["completions"], call["answers"], strict=True))
    assert [one[4] for one in judged] == pytest.approx(call["rewards"])
    assert [row["status"] for row in found][:2] == ["success", "failed"]
    # Where the function does not tell, how the completion ended does.
    ends = ["completed" if ids[-1] in (0, 1) else "truncated" for ids in call["ids"]]
    assert [row["status"] for row in found][2:] == ends[2:]
    assert [record.getMessage() for record in caplog.records if "success()" in record.getMessage()] == [
        "success() raised KeyError('nobody knows'); completions for which it raises are recorded without success"
    ]


@pytest.mark.usefixtures("recorder_env")
def test_rloo_is_recorded_in_the_same_way(query: Query, tmp_path: Path) -> None:
    seen = Seen()
    trainer = make_trainer(tmp_path, seen, PROMPTS, RLOOTrainer, RLOOConfig, max_steps=1, beta=0.0)
    run_id = settled(query, _train(trainer))
    found = rollouts(query, run_id, "training_steps")
    assert [row["completion_ids"] for row in found] == seen.calls[0]["ids"]
    assert [row["action"] for row in found] == seen.calls[0]["completions"]
    assert query("select algorithm from training_runs where id = %s", run_id) == [{"algorithm": "rloo"}]


@pytest.mark.usefixtures("recorder_env")
def test_training_goes_on_where_completions_cannot_be_recorded(
    query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def of_another_version(*_: Any) -> Any:
        raise KeyError("role")

    monkeypatch.setattr(sys.modules[record_rollouts.__module__], "turns_of", of_another_version)
    trainer = make_trainer(tmp_path, Seen(), PROMPTS)
    run_id = settled(query, _train(trainer))
    assert trainer.state.global_step == 2
    assert [record.getMessage() for record in caplog.records if "not be recorded" in record.getMessage()] == [
        f"completions could not be recorded (trl {trl.__version__}): KeyError('role')"
    ]
    assert len(query("select 1 from training_steps where training_run_id = %s and status = 'completed'", run_id)) == 2


def test_a_trainer_without_completions_is_refused(tmp_path: Path) -> None:
    trainer = Trainer(model=make_model(), args=TrainingArguments(str(tmp_path), use_cpu=True, report_to=[]))
    with pytest.raises(InvalidInput, match="cannot record completions") as caught:
        record_rollouts(trainer)
    assert "GRPOTrainer" in str(caught.value.hint)


def test_an_answer_between_tools_is_several_turns_with_the_tokens_of_each() -> None:
    call = {"type": "function", "function": {"name": "look", "arguments": {"where": "north"}}}
    prompt = [{"role": "user", "content": "find the ball"}]
    completion = [
        {"role": "assistant", "content": "I look", "tool_calls": [call]},
        {"role": "tool", "name": "look", "content": "a ball"},
        {"role": "assistant", "content": "there it is"},
    ]
    first, second = turns_of(prompt, completion)
    assert (first.messages, first.observation, first.action) == (prompt, "find the ball", "I look")
    assert first.tool_calls == [{"tool_name": "look", "tool_input": {"where": "north"}, "tool_output": "a ball"}]
    assert (second.messages, second.observation) == ([*prompt, *completion[:2]], "a ball")
    tokens = Tokens(
        prompt_ids=[1, 2],
        completion_ids=[3, 4, 5, 6, 7],
        mask=[True, True, False, False, True],
        own=[True, True, False, False, True],
        advantages=[0.5],
        logprobs=[-0.1, -0.2, 0.0, 0.0, -0.3],
        finish_reason="stop",
    )
    parts = tokens_by_turn(tokens, turn_count=2)
    assert [(part.prompt_ids, part.completion_ids, part.logprobs, part.finish_reason) for part in parts if part] == [
        ([1, 2], [3, 4], [-0.1, -0.2], "tool_calls"),
        ([1, 2, 3, 4, 5, 6], [7], [-0.3], "stop"),
    ]
    # Two turns whose tokens run into each other.
    assert tokens_by_turn(tokens, turn_count=3) == [None, None, tokens]


def _train(trainer: Any) -> OpenManusCallback:
    callback = record_rollouts(trainer)
    trainer.train()
    return callback


class _KeepAdvantages(TrainerCallback):
    """Keeps the advantages that the trainer itself logs, batch by batch."""

    def __init__(self, trainer: Any, advantages: list[float]) -> None:
        self.trainer, self.advantages = trainer, advantages

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        self.advantages.extend(self.trainer._logs["advantages"])
