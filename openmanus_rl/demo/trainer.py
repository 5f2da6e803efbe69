"""Training without a record: collect groups of rollouts, learn from them, examine on what was held out."""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import fmean, pstdev

from openmanus_rl.demo.episode import Episode, play
from openmanus_rl.demo.learner import Learner, Update, assign_advantages
from openmanus_rl.demo.policy import Policy
from openmanus_rl.demo.tasks import HouseTask, held_out_tasks, training_tasks

__all__ = ["Figures", "Group", "Trainer", "measure"]


@dataclass(frozen=True)
class Group:
    """Rollouts of one task by the same policy, judged against each other."""

    task: HouseTask
    episodes: list[Episode]


@dataclass(frozen=True)
class Figures:
    """How a set of episodes went."""

    success_rate: float
    mean_reward: float
    reward_std: float
    mean_turns: float
    tool_failure_rate: float


class Trainer:
    """An agent in training; the same seed gives the same agent after the same steps."""

    def __init__(
        self,
        *,
        seed: int,
        groups_per_step: int = 4,
        group_size: int = 6,
        learning_rate: float = 0.15,
    ) -> None:
        self.seed = seed
        self.groups_per_step = groups_per_step
        self.group_size = group_size
        self.training_tasks = training_tasks(seed)
        self.held_out_tasks = held_out_tasks(seed)
        self.policy = Policy()
        self.learner = Learner(self.policy, learning_rate=learning_rate)

    def collect(self, step: int) -> list[Group]:
        """Play the tasks whose turn it is, each several times."""
        groups = []
        for number in range(self.groups_per_step):
            task = self.training_tasks[((step - 1) * self.groups_per_step + number) % len(self.training_tasks)]
            episodes = [
                play(self.policy, task, seed=_derive_seed(self.seed, "train", step, number, sibling))
                for sibling in range(self.group_size)
            ]
            assign_advantages(episodes)
            groups.append(Group(task, episodes))
        return groups

    def learn(self, groups: list[Group]) -> Update:
        """Update the policy by what the groups teach."""
        return self.learner.update([episode for group in groups for episode in group.episodes])

    def examine(self) -> list[Group]:
        """Play every held-out task once, always with the same luck, so that only the policy makes the difference."""
        return [
            Group(task, [play(self.policy, task, seed=_derive_seed(self.seed, "exam", task.number))])
            for task in self.held_out_tasks
        ]


def measure(groups: list[Group]) -> Figures:
    """Sum up how groups of episodes went."""
    episodes = [episode for group in groups for episode in group.episodes]
    rewards = [episode.total_reward for episode in episodes]
    calls = [call for episode in episodes for turn in episode.turns for call in turn.tool_calls]
    return Figures(
        success_rate=fmean(episode.success for episode in episodes),
        mean_reward=fmean(rewards),
        reward_std=pstdev(rewards),
        mean_turns=fmean(len(episode.turns) for episode in episodes),
        tool_failure_rate=fmean(not call.success for call in calls) if calls else 0.0,
    )


def _derive_seed(*parts: object) -> int:
    # Text seeds are hashed by the generator itself, alike on every machine.
    return random.Random(":".join(map(str, parts))).getrandbits(32)
