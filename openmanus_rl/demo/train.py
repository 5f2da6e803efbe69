"""The demo's training loop, and how it records itself.

Everything goes through the run that `openmanus_rl.init` returns. It has no call for tasks, verdicts, results of
checkpoints and log files: the managers write those.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import openmanus_rl
from openmanus_rl.connections import get_client
from openmanus_rl.demo.agent import MODEL, Policy, completion_tokens, encode
from openmanus_rl.demo.house import ENVIRONMENT, TURN_LIMIT, Task
from openmanus_rl.demo.learner import Episode, Trainer, Turn, measure
from openmanus_rl.errors import OpenManusError
from openmanus_rl.managers.batches import write_many
from openmanus_rl.recorder.blocks import Evaluation, Step
from openmanus_rl.recorder.run import Run
from openmanus_rl.records.ids import task_id, validation_id, validator_id
from openmanus_rl.utils.supabase_db import EnvironmentManager, ModelCheckpointManager, TaskManager
from openmanus_rl.utils.supabase_storage import StorageManager

DEFAULT_STEPS = 30
EVALUATION_COUNT = 5
# Below the limit at which an episode is cut off: an agent that wanders about fails this check.
TURN_BUDGET = TURN_LIMIT * 2 // 3


@dataclass
class DemoResult:
    """What the demo recorded and how well the agent learned; the evaluation at step 0 is of the untrained agent."""

    run_id: str
    seed: int
    steps: int
    success_rates: list[float] = field(default_factory=list)
    evaluations: dict[int, dict[str, float]] = field(default_factory=dict)
    rollout_count: int = 0
    turn_count: int = 0
    example_rollout_id: str = ""
    seconds: float = 0.0
    log: list[str] = field(default_factory=list)
    unwritten_verdicts: list[dict[str, Any]] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Return what is shown of the run as a whole."""
        figures = {"baseline": self.evaluations[0], "final": self.evaluations[self.steps]}
        return {**figures, "rollouts": self.rollout_count, "turns": self.turn_count, "seconds": round(self.seconds, 2)}


OnStep = Callable[[int, DemoResult], None]


def train(
    *, steps: int = DEFAULT_STEPS, seed: int = 0, name: str = "demo", on_step: OnStep | None = None
) -> DemoResult:
    """Train an agent to fetch things in text houses and record all of it; `on_step` is called after each step."""
    began = time.monotonic()
    trainer = Trainer(seed=seed)
    import_tasks([*trainer.training_tasks, *trainer.held_out_tasks])
    config = {"seed": seed, "steps": steps, "model": MODEL, **asdict(trainer.config)}
    # Online, whatever the settings say: the managers need what the recorder delivers.
    with openmanus_rl.init(
        name, algorithm="grpo", environment=ENVIRONMENT, config=config, tags=["demo"], total_steps=steps, mode="online"
    ) as run:
        result = DemoResult(run.id, seed, steps)
        evaluate(run, trainer, result, step=0)
        for number in range(1, steps + 1):
            train_step(run, trainer, result, number=number)
            if number in {round(steps * part / EVALUATION_COUNT) for part in range(1, EVALUATION_COUNT + 1)}:
                evaluate(run, trainer, result, step=number)
            if on_step is not None:
                on_step(number, result)
        StorageManager.upload_bytes("logs", f"{run.id}/training.log", "".join(result.log).encode())
        result.seconds = time.monotonic() - began
        run.finish(summary=result.summary())
    deliver(run)
    return result


def train_step(run: Run, trainer: Trainer, result: DemoResult, *, number: int) -> None:
    """Collect groups of rollouts, learn from them, and record both."""
    with run.step(number, phase="rollout") as step:
        groups = trainer.collect(number)
        for group in groups:
            record_group(step, group, result)
        step.log(phase="training", rollout_progress=1.0)
        update = trainer.learn(groups)
        episodes = [episode for group in groups for episode in group]
        turns = [turn for episode in episodes for turn in episode.turns]
        figures = measure(episodes)
        step.log(
            training_progress=1.0,
            **{name: update[name] for name in ("loss", "kl", "grad_norm")},
            reward_mean=figures["mean_reward"],
            reward_std=figures["reward_std"],
            tokens=sum(len(completion_tokens(turn.decision)[0]) for turn in turns),
        )
    run.log({**update, **figures}, step=number)
    result.success_rates.append(figures["success_rate"])
    result.rollout_count += len(episodes)
    result.turn_count += len(turns)
    result.example_rollout_id = max(episodes, key=lambda episode: episode.total_reward).rollout_id
    result.log.append(f"step {number}: success rate {figures['success_rate']:.3f}, loss {update['loss']:.3f}\n")


def evaluate(run: Run, trainer: Trainer, result: DemoResult, *, step: int) -> None:
    """Examine the policy on the held-out tasks; at step 0 it is untrained, and the baseline."""
    checkpoint = save_checkpoint(run, trainer.policy, step=step) if step > 0 else None
    with run.evaluation(
        kind="eval" if checkpoint else "baseline",
        name="held-out tasks",
        step=step,
        model=f"{MODEL} v{trainer.policy.version}",
        environment=ENVIRONMENT,
        checkpoint_id=checkpoint,
    ) as evaluation:
        episodes = trainer.examine()
        for episode in episodes:
            record_group(evaluation, [episode], result)
    figures = result.evaluations[step] = measure(episodes)
    run.log({f"eval/{name}": figures[name] for name in ("success_rate", "mean_reward")}, step=step)
    result.log.append(f"evaluation at {step}: success rate {figures['success_rate']:.3f}\n")

    # The managers' records refer to rollouts, checkpoints and evaluations, which must be in the database first.
    deliver(run)
    write_many("validations", result.unwritten_verdicts, client=get_client()).raise_if_refused()
    result.unwritten_verdicts.clear()
    if checkpoint:
        shown = {name: figures[name] for name in ("success_rate", "mean_reward", "mean_turns")}
        ModelCheckpointManager.log_evaluation(
            checkpoint, ENVIRONMENT, evaluation_id=evaluation.id, episode_count=len(episodes), **shown
        )


def record_group(parent: Step | Evaluation, episodes: list[Episode], result: DemoResult) -> None:
    """Record episodes of one task as a group of rollouts."""
    task = episodes[0].task
    with parent.group(task=task.description, task_id=task_id(ENVIRONMENT, task.external_id)) as group:
        for episode in episodes:
            policy = {"model": MODEL, "policy_version": episode.policy_version}
            with group.rollout(environment=ENVIRONMENT, seed=episode.seed, **policy) as rollout:
                for turn in episode.turns:
                    rollout.log_turn(**turn.record, **describe_decision(turn, policy))
                # The total reward and the number of turns follow from the turns.
                rollout.complete(episode.outcome, result={"taken": episode.taken})
            episode.rollout_id = rollout.id
            result.unwritten_verdicts += judge(episode)


def describe_decision(turn: Turn, policy: dict[str, Any]) -> dict[str, Any]:
    """Return the tokens of a turn's command and the alternatives to it, as `rollout.log_turn` takes them."""
    decision = turn.decision
    tokens, logprobs = completion_tokens(decision)
    return {
        "generations": {
            **policy,
            "prompt_ids": encode(turn.record["observation"]),
            "completion_ids": tokens,
            "logprobs": logprobs,
            "mask": [True] * len(tokens),
            "finish_reason": "stop",
            "advantage": turn.advantage,
        },
        "model_response": {
            "commands": decision.commands,
            "probabilities": [round(p, 6) for p in decision.probabilities],
        },
    }


def save_checkpoint(run: Run, policy: Policy, *, step: int) -> str:
    """Record the weights as a checkpoint and return its id; `Policy.load` reads the file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "policy.json"
        policy.save(file)
        return run.log_checkpoint(step, step=step, file=file, metadata={"policy_version": policy.version})


def deliver(run: Run) -> None:
    """Wait until all that was recorded is in the database."""
    if not run.flush(timeout_seconds=300):
        hint = "`openmanus-rl sync` delivers the rest and says what was refused"
        raise OpenManusError(f"run {run.id}: not everything was delivered: {run.stats}", hint=hint)


def import_tasks(tasks: list[Task]) -> None:
    """Describe the environment, and its tasks with their validators; what is there already is updated."""
    EnvironmentManager.save_environment(ENVIRONMENT, kind="text", description="Fetch a thing in a small house")
    records = [
        {
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
        for task in tasks
    ]
    TaskManager.import_tasks(records, environment=ENVIRONMENT).raise_if_refused()


def judge(episode: Episode) -> Iterator[dict[str, Any]]:
    """Yield the verdicts of the task's validators on an episode."""
    turns, target, rollout_id = len(episode.turns), episode.task.target, episode.rollout_id
    for name, passed, expected, actual in (
        ("right_thing", episode.outcome == "success", target, episode.taken or "nothing"),
        ("in_time", turns <= TURN_BUDGET, f"at most {TURN_BUDGET} turns", f"{turns} turns"),
    ):
        validator = validator_id(task_id(ENVIRONMENT, episode.task.external_id), name)
        ids = {"id": validation_id(rollout_id, validator, name), "rollout_id": rollout_id, "validator_id": validator}
        verdict = {"verdict": "pass" if passed else "fail", "score": float(passed)}
        yield {**ids, "validator_name": name, **verdict, "expected": expected, "actual": actual}
