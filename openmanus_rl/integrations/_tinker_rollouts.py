"""Record the trajectory groups of tinker-cookbook as groups of rollouts, with tokens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Protocol

from openmanus_rl.integrations._extras import provided_by
from openmanus_rl.integrations._trainer_numbers import numbers_of
from openmanus_rl.recorder import Evaluation, Group, Run, Step

with provided_by("tinker"):
    import tinker
    from tinker_cookbook.rl.data_processing import compute_advantages
    from tinker_cookbook.rl.types import (
        PARSE_ERROR_MASKED_METRIC_KEY,
        StopReason,
        Trajectory,
        TrajectoryGroup,
        Transition,
    )

__all__ = ["Tokenizer", "log_trajectory_groups"]

_CUT_SHORT = {
    StopReason.MAX_TURNS,
    StopReason.MAX_TOKENS,
    StopReason.MAX_SAMPLED_TOKENS,
    StopReason.MAX_TOOL_CALLS,
    StopReason.CONTEXT_OVERFLOW,
}


class Tokenizer(Protocol):
    """Decodes token ids."""

    def decode(self, token_ids: list[int], /) -> Any: ...


def log_trajectory_groups(
    run: Run,
    step: int | Step | Evaluation,
    groups: Sequence[TrajectoryGroup],
    *,
    advantages: Sequence[Any] | None = None,
    tasks: Sequence[str | None] | None = None,
    tags: Sequence[Sequence[str]] | None = None,
    policy_versions: Sequence[int | None] | None = None,
    tokenizer: Tokenizer | None = None,
) -> None:
    """Record trajectory groups in a step or an evaluation: a rollout per trajectory, a turn per transition.

    `advantages` are those that the loop trains on, a sequence for each group; by default, the cookbook computes them.
    The other sequences also have one entry for each group. With a tokenizer, turns have text besides their tokens.
    """
    found = advantages if advantages is not None else compute_advantages(list(groups))
    parent = run.step(step) if isinstance(step, int) else step
    with parent if isinstance(step, int) else nullcontext():
        for place, group in enumerate(groups):
            task = tasks[place] if tasks is not None else _task(group, tokenizer)
            labels = list(tags[place]) if tags is not None else []
            errors = [f"{error.error_type}: {error.error_message}" for error in group.rollout_errors]
            metadata = {"tags": labels, "rollout_errors": errors} if labels or errors else None
            version = policy_versions[place] if policy_versions is not None else None
            _log_group(
                parent.group(task=task, metadata=metadata),
                group,
                advantages=[float(value) for value in found[place]],
                writer=_Writer(policy_version=version, tokenizer=tokenizer),
            )


def _log_group(group: Group, trajectories: TrajectoryGroup, *, advantages: list[float], writer: _Writer) -> None:
    totals = trajectories.get_total_rewards()
    for place, trajectory in enumerate(trajectories.trajectories_G):
        metadata = numbers_of(trajectories.metrics_G[place])
        with group.rollout(
            policy_version=writer.policy_version, metadata={"metrics": metadata} if metadata else None
        ) as rollout:
            last = len(trajectory.transitions) - 1
            for number, transition in enumerate(trajectory.transitions):
                reward = {"step": transition.reward}
                if number == last and trajectories.final_rewards_G[place]:
                    reward["group"] = trajectories.final_rewards_G[place]
                rollout.log_turn(
                    **writer.turn(transition, previous=trajectory.transitions[number - 1] if number else None),
                    reward=reward,
                    generations=[writer.generation(transition, advantage=advantages[place])],
                )
            rollout.complete(_status(trajectory), total_reward=totals[place], message=trajectory.stop_reason)


class _Writer:
    """Converts transitions to turns and generations."""

    def __init__(self, *, policy_version: int | None, tokenizer: Tokenizer | None) -> None:
        self.policy_version = policy_version
        self._tokenizer = tokenizer

    def turn(self, transition: Transition, *, previous: Transition | None) -> dict[str, Any]:
        """Return the observation and the action; of an observation that extends the previous one, only the new part."""
        seen = _token_ids(transition.ob)
        before = _token_ids(previous.ob) + previous.ac.tokens if previous is not None else []
        fresh = seen[len(before) :] if seen[: len(before)] == before else seen
        further = {"metrics": transition.metrics, "logs": transition.logs}
        return {
            "observation": self.text(fresh),
            "action": self.text(transition.ac.tokens),
            "info": {name: value for name, value in further.items() if value} or None,
        }

    def generation(self, transition: Transition, *, advantage: float) -> dict[str, Any]:
        """Return the tokens of a turn, with the mask and the advantages used in training."""
        # Like the cookbook, which may exclude turns that could not be parsed from training.
        is_masked = float(transition.metrics.get(PARSE_ERROR_MASKED_METRIC_KEY, 0.0)) >= 1.0
        tokens = transition.ac.tokens
        return {
            "prompt_ids": _token_ids(transition.ob),
            "completion_ids": tokens,
            "logprobs": transition.ac.maybe_logprobs,
            "mask": [not is_masked] * len(tokens),
            "advantages": [0.0 if is_masked else advantage],
            "finish_reason": transition.ac.stop_reason,
            "policy_version": self.policy_version,
        }

    def text(self, token_ids: list[int]) -> str | None:
        """Return the text of tokens, if there is a tokenizer."""
        return str(self._tokenizer.decode(token_ids)) if self._tokenizer is not None else None


def _token_ids(observation: tinker.ModelInput) -> list[int]:
    """Return the tokens of an observation; images have none."""
    found: list[int] = []
    for chunk in observation.chunks:
        found.extend(getattr(chunk, "tokens", ()))
    return found


def _task(group: TrajectoryGroup, tokenizer: Tokenizer | None) -> str | None:
    """Return the text that all trajectories of a group start with."""
    if tokenizer is None or not group.trajectories_G or not group.trajectories_G[0].transitions:
        return None
    return str(tokenizer.decode(_token_ids(group.trajectories_G[0].transitions[0].ob)))


def _status(trajectory: Trajectory) -> str:
    if trajectory.stop_reason == StopReason.ROLLOUT_TIMEOUT:
        return "timeout"
    return "truncated" if trajectory.stop_reason in _CUT_SHORT else "completed"
