"""The demo's training loop, and the example to copy: create a run, record steps and evaluations, finish."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from openmanus_rl.demo.records import MODEL, describe_tasks, group_batch
from openmanus_rl.demo.tasks import ENVIRONMENT
from openmanus_rl.demo.trainer import Figures, Trainer, measure
from openmanus_rl.errors import OpenManusError
from openmanus_rl.gateway import Row
from openmanus_rl.records.statuses import RunStatus
from openmanus_rl.utils.supabase_db import (
    EnvironmentManager,
    EvaluationManager,
    MetricManager,
    ModelCheckpointManager,
    TaskManager,
    TrainingRunManager,
    TrainingStepManager,
    write_batch,
)
from openmanus_rl.utils.supabase_storage import StorageManager

__all__ = ["DEFAULT_STEPS", "DemoResult", "train"]

DEFAULT_STEPS = 30
_EVALUATION_COUNT = 5


@dataclass
class DemoResult:
    """What the demo recorded and how well the agent learned."""

    run_id: str
    seed: int
    steps: int
    baseline: Figures
    final: Figures
    success_rates: list[float] = field(default_factory=list)
    evaluations: dict[int, float] = field(default_factory=dict)
    rollout_count: int = 0
    turn_count: int = 0
    example_rollout_id: str = ""
    seconds: float = 0.0


OnStep = Callable[[int, DemoResult], None]


def train(
    *, steps: int = DEFAULT_STEPS, seed: int = 0, name: str = "demo", on_step: OnStep | None = None
) -> DemoResult:
    """Train an agent to fetch things in text houses and record all of it; `on_step` hears of each step as it ends."""
    began = time.monotonic()
    trainer = Trainer(seed=seed)
    EnvironmentManager.save_environment(
        ENVIRONMENT, kind="text", description="Fetch a thing in a small house", source="openmanus_rl.demo.house"
    )
    tasks = describe_tasks([*trainer.training_tasks, *trainer.held_out_tasks])
    TaskManager.import_tasks(tasks, environment=ENVIRONMENT).raise_if_refused()

    run = TrainingRunManager.create_run(
        name=name,
        algorithm="grpo",
        environment=ENVIRONMENT,
        config={
            "seed": seed,
            "steps": steps,
            "groups_per_step": trainer.groups_per_step,
            "group_size": trainer.group_size,
            "learning_rate": trainer.learner.learning_rate,
            "entropy_bonus": trainer.learner.entropy_bonus,
            "clip": trainer.learner.clip,
            "epochs": trainer.learner.epochs,
            "model": MODEL,
        },
        tags=["demo"],
        total_steps=steps,
    )
    with ended_if_broken_off(run), TemporaryDirectory(prefix="openmanus-rl-demo-") as folder:
        log = Path(folder) / "training.log"
        baseline = evaluate(run, trainer, step=0, checkpoint=None)
        result = DemoResult(run["id"], seed, steps, baseline=baseline, final=baseline)
        result.evaluations[0] = baseline.success_rate
        write_line(log, f"baseline: success rate {baseline.success_rate:.3f}")

        for step in range(1, steps + 1):
            figures = train_step(run, trainer, step, result)
            write_line(log, f"step {step}: success rate {figures.success_rate:.3f}, reward {figures.mean_reward:.3f}")
            if step in evaluation_steps(steps):
                checkpoint = save_checkpoint(run, trainer, step=step, folder=Path(folder))
                result.final = evaluate(run, trainer, step=step, checkpoint=checkpoint)
                result.evaluations[step] = result.final.success_rate
                write_line(log, f"evaluation at {step}: success rate {result.final.success_rate:.3f}")
            if on_step is not None:
                on_step(step, result)

        StorageManager.upload_log(training_run_id=run["id"], log_type="training", log_file=log)
        result.seconds = time.monotonic() - began
        TrainingRunManager.finish(
            run["id"],
            summary={
                "baseline": asdict(result.baseline),
                "final": asdict(result.final),
                "rollouts": result.rollout_count,
                "turns": result.turn_count,
                "seconds": round(result.seconds, 1),
            },
        )
    return result


def train_step(run: Row, trainer: Trainer, step: int, result: DemoResult) -> Figures:
    """Collect groups of rollouts, record them in one call, learn from them and record how that went."""
    training_step = TrainingStepManager.start_step(run["id"], step, phase="rollout")
    groups = trainer.collect(step)
    batch = group_batch(
        groups, parent={"training_step_id": training_step["id"]}, first_episode_number=result.rollout_count
    )
    write_batch(batch).raise_if_refused()
    result.rollout_count += len(batch["rollouts"])
    result.turn_count += len(batch["agent_states"])
    result.example_rollout_id = max(batch["rollouts"], key=lambda rollout: rollout["total_reward"])["id"]

    update = trainer.learn(groups)
    figures = measure(groups)
    result.success_rates.append(figures.success_rate)
    TrainingStepManager.complete_step(
        run["id"],
        step,
        phase="training",
        rollout_progress=1.0,
        training_progress=1.0,
        loss=update.loss,
        kl=update.kl,
        grad_norm=update.grad_norm,
        reward_mean=figures.mean_reward,
        reward_std=figures.reward_std,
        tokens=sum(len(turn["generations"][0]["completion_ids"]) for turn in batch["agent_states"]),
    )
    MetricManager.log(
        run["id"],
        {
            "reward": figures.mean_reward,
            "reward_std": figures.reward_std,
            "success_rate": figures.success_rate,
            "turns": figures.mean_turns,
            "tool_failure_rate": figures.tool_failure_rate,
            "loss": update.loss,
            "entropy": update.entropy,
            "kl": update.kl,
            "grad_norm": update.grad_norm,
            "clip_fraction": update.clip_fraction,
            "learning_rate": update.learning_rate,
        },
        step=step,
    )
    TrainingRunManager.heartbeat(run["id"], progress=step / run["total_steps"], current_step=step)
    return figures


def evaluate(run: Row, trainer: Trainer, *, step: int, checkpoint: Row | None) -> Figures:
    """Examine the policy on the held-out tasks; without a checkpoint it is the untrained one, the baseline."""
    evaluation = EvaluationManager.create_evaluation(
        run["id"],
        kind="eval" if checkpoint else "baseline",
        name="held-out tasks",
        step=step,
        model=f"{MODEL} v{trainer.policy.version}",
        environment=ENVIRONMENT,
        checkpoint_id=checkpoint["id"] if checkpoint else None,
    )
    groups = trainer.examine()
    batch = group_batch(groups, parent={"evaluation_id": evaluation["id"]}, first_episode_number=0)
    write_batch(batch).raise_if_refused()
    # No figures given: the database computes them from the rollouts.
    EvaluationManager.complete_evaluation(evaluation["id"])
    figures = measure(groups)
    if checkpoint:
        ModelCheckpointManager.log_evaluation(
            checkpoint["id"],
            ENVIRONMENT,
            evaluation_id=evaluation["id"],
            episode_count=len(batch["rollouts"]),
            success_rate=figures.success_rate,
            mean_reward=figures.mean_reward,
            mean_turns=figures.mean_turns,
        )
    MetricManager.log(
        run["id"], {"eval/success_rate": figures.success_rate, "eval/reward": figures.mean_reward}, step=step
    )
    return figures


def save_checkpoint(run: Row, trainer: Trainer, *, step: int, folder: Path) -> Row:
    """Save the weights, upload the file and register it; `Policy.load` reads it back."""
    file = folder / "policy.json"
    trainer.policy.save(file)
    path = StorageManager.upload_checkpoint(training_run_id=run["id"], checkpoint_number=step, checkpoint_file=file)
    return ModelCheckpointManager.save_checkpoint(
        run["id"],
        step,
        storage_path=path,
        step=step,
        size_bytes=file.stat().st_size,
        checksum=hashlib.sha256(file.read_bytes()).hexdigest(),
        metadata={"policy_version": trainer.policy.version},
    )


def evaluation_steps(steps: int) -> set[int]:
    """Return the steps after which to evaluate: evenly spread, the last among them."""
    return {round(steps * part / _EVALUATION_COUNT) for part in range(1, _EVALUATION_COUNT + 1)} - {0}


@contextmanager
def ended_if_broken_off(run: Row) -> Iterator[None]:
    """Leave no run behind that says it runs although its script has ended."""
    try:
        yield
    except BaseException as error:
        status: RunStatus = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        # What broke the run off is what is to be told, even if the record can't be reached any more.
        with suppress(OpenManusError):
            TrainingRunManager.finish(run["id"], status=status, message=str(error) or type(error).__name__)
        raise


def write_line(log: Path, line: str) -> None:
    """Append a line to the training log."""
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n")
