"""Turning what was played into records, as `write_batch` and `import_tasks` take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from openmanus_rl.demo.episode import Episode, Turn
from openmanus_rl.demo.house import TURN_LIMIT
from openmanus_rl.demo.tasks import ENVIRONMENT, HouseTask
from openmanus_rl.demo.tokens import completion_tokens, encode
from openmanus_rl.demo.trainer import Group
from openmanus_rl.records.ids import creation_change_id, group_id, new_id, task_id, validation_id, validator_id

__all__ = ["MODEL", "TURN_BUDGET", "describe_tasks", "group_batch"]

Record = dict[str, Any]

MODEL = "linear-softmax"
# Tighter than the limit at which an episode is cut off: whoever wanders about fails this one check.
TURN_BUDGET = TURN_LIMIT * 2 // 3


def describe_tasks(tasks: Iterable[HouseTask]) -> Iterator[Record]:
    """Yield tasks with the validators that check their outcome."""
    for task in tasks:
        yield {
            "external_id": task.external_id,
            "name": f"{task.target} ({task.hiding})",
            "description": task.description,
            "expected_answer": task.target,
            "split": task.split,
            "metadata": {"hiding": task.hiding, "seed": task.seed},
            "validators": [
                {"external_id": "right_thing", "kind": "equals", "spec": {"expected": task.target}},
                {"external_id": "in_time", "kind": "max_turns", "spec": {"turns": TURN_BUDGET}},
            ],
        }


def group_batch(
    groups: Iterable[Group], *, parent: dict[str, str], first_episode_number: int
) -> dict[str, list[Record]]:
    """Return one batch of all there is to record of some groups.

    `parent` is what the groups belong to: {"training_step_id": ...} or {"evaluation_id": ...}.
    """
    batch: dict[str, list[Record]] = {
        kind: [] for kind in ("rollout_groups", "rollouts", "agent_states", "rewards", "validations")
    }
    (parent_id,) = parent.values()
    episode_number = first_episode_number
    for number, group in enumerate(groups):
        of_task = task_id(ENVIRONMENT, group.task.external_id)
        group_record = {
            "id": group_id(parent_id, number),
            **parent,
            "number": number,
            "task_id": of_task,
            "task_description": group.task.description,
        }
        batch["rollout_groups"].append(group_record)
        for episode in group.episodes:
            rollout = _rollout_record(episode, episode_number) | {"group_id": group_record["id"]}
            batch["rollouts"].append(rollout)
            batch["agent_states"] += _turn_records(episode, rollout["id"])
            batch["rewards"] += [
                {"id": new_id(), "rollout_id": rollout["id"], "reward_type": part, "reward": reward}
                for part, reward in episode.final_rewards.items()
            ]
            batch["validations"] += _validate(episode, rollout["id"], of_task)
            episode_number += 1
    return batch


def _rollout_record(episode: Episode, episode_number: int) -> Record:
    rollout = new_id()
    return {
        "id": rollout,
        "environment": ENVIRONMENT,
        "episode_number": episode_number,
        "status": episode.outcome,
        "status_change_id": creation_change_id(rollout),
        "total_reward": episode.total_reward,
        "step_count": len(episode.turns),
        "result": {"taken": episode.taken},
        "model": MODEL,
        "policy_version": episode.policy_version,
        "seed": episode.seed,
        "metadata": {"hiding": episode.task.hiding},
        "started_at": episode.started_at.isoformat(),
        "finished_at": episode.finished_at.isoformat(),
    }


def _turn_records(episode: Episode, rollout: str) -> Iterator[Record]:
    """Yield the turns of an episode, each with what was generated, called and earned in it."""
    for number, turn in enumerate(episode.turns, start=1):
        advantage = episode.advantages[number - 1] if episode.advantages else None
        yield {
            "id": new_id(),
            "rollout_id": rollout,
            "step_number": number,
            "observation": turn.observation,
            "thought": turn.thought,
            "action": turn.decision.command,
            "memory_summary": turn.memory_summary,
            "model_response": {
                "commands": turn.decision.commands,
                "probabilities": [round(probability, 6) for probability in turn.decision.probabilities],
            },
            "duration_ms": turn.model_duration_ms + turn.environment_duration_ms,
            "model_duration_ms": turn.model_duration_ms,
            "environment_duration_ms": turn.environment_duration_ms,
            "tool_calls": [{k: v for k, v in vars(call).items() if v is not None} for call in turn.tool_calls],
            "generations": [_generation_record(turn, episode.policy_version, advantage)],
            "rewards": [{"reward": turn.reward, "reward_type": "step", "details": turn.reward_parts}],
        }


def _generation_record(turn: Turn, policy_version: int, advantage: float | None) -> Record:
    tokens, logprobs = completion_tokens(turn.decision)
    record: Record = {
        "model": MODEL,
        "policy_version": policy_version,
        "prompt_ids": encode(turn.observation),
        "completion_ids": tokens,
        "logprobs": logprobs,
        "mask": [True] * len(tokens),
        "finish_reason": "stop",
    }
    # An examined episode has no siblings to be compared with.
    return record if advantage is None else record | {"advantages": [advantage]}


def _validate(episode: Episode, rollout: str, of_task: str) -> Iterator[Record]:
    """Yield the verdicts of the task's validators on an episode."""
    turn_count = len(episode.turns)
    checks = {
        "right_thing": (episode.success, episode.task.target, episode.taken or "nothing"),
        "in_time": (turn_count <= TURN_BUDGET, f"at most {TURN_BUDGET} turns", f"{turn_count} turns"),
    }
    for name, (passed, expected, actual) in checks.items():
        validator = validator_id(of_task, name)
        yield {
            "id": validation_id(rollout, validator, name),
            "rollout_id": rollout,
            "validator_id": validator,
            "validator_name": name,
            "verdict": "pass" if passed else "fail",
            "score": float(passed),
            "expected": expected,
            "actual": actual,
        }
