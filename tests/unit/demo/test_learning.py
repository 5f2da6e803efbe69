"""The demo's agent really learns, and what is told of its choices is true."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from openmanus_rl.demo.episode import Episode, play
from openmanus_rl.demo.learner import Learner, assign_advantages
from openmanus_rl.demo.policy import Policy
from openmanus_rl.demo.tasks import training_tasks
from openmanus_rl.demo.tokens import END, UNKNOWN, VOCABULARY, completion_tokens, encode
from openmanus_rl.demo.train import DEFAULT_STEPS
from openmanus_rl.demo.trainer import Trainer, measure


def trained(seed: int, steps: int) -> Trainer:
    trainer = Trainer(seed=seed)
    for step in range(1, steps + 1):
        trainer.learn(trainer.collect(step))
    return trainer


def group(seed: int = 0, size: int = 6) -> list[Episode]:
    return [play(Policy(), training_tasks(seed)[0], seed=number) for number in range(size)]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_trained_agent_beats_the_untrained_one_by_far_on_held_out_tasks(seed: int) -> None:
    baseline = measure(Trainer(seed=seed).examine())
    final = measure(trained(seed, DEFAULT_STEPS).examine())
    assert baseline.success_rate < 0.3
    assert final.success_rate > baseline.success_rate + 0.4
    assert final.mean_reward > baseline.mean_reward + 0.8
    assert final.mean_turns < baseline.mean_turns


def test_the_same_seed_gives_the_same_agent_and_another_seed_another() -> None:
    first, again, other = trained(5, 2), trained(5, 2), trained(6, 2)
    assert first.policy.weights == again.policy.weights
    assert first.policy.weights != other.policy.weights
    assert [e.total_reward for g in first.examine() for e in g.episodes] == [
        e.total_reward for g in again.examine() for e in g.episodes
    ]


def test_advantages_are_relative_to_the_siblings() -> None:
    episodes = group()
    assign_advantages(episodes)
    first_turns = [episode.advantages[0] for episode in episodes]
    returns = [episode.returns(discount=0.95)[0] for episode in episodes]
    assert sum(first_turns) == pytest.approx(0, abs=1e-9)
    assert max(range(6), key=first_turns.__getitem__) == max(range(6), key=returns.__getitem__)
    assert all(len(episode.advantages) == len(episode.turns) for episode in episodes)


def test_undiscounted_returns_of_the_first_turn_are_the_total_reward() -> None:
    for episode in group():
        assert episode.returns(discount=1.0)[0] == pytest.approx(episode.total_reward)


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    policy = Policy([0.1 * math.sin(index) for index in range(4096)])
    episodes = [play(policy, training_tasks(0)[0], seed=number) for number in range(4)]
    assign_advantages(episodes)
    learner = Learner(policy, learning_rate=0.1)
    turns = [(t.decision, a) for e in episodes for t, a in zip(e.turns, e.advantages, strict=True)]
    gradient = learner._pass_over(turns).gradient
    for index in sorted(gradient, key=lambda i: -abs(gradient[i]))[:5]:
        losses = []
        for nudge in (1e-5, -1e-5):
            policy.weights[index] += nudge
            losses.append(learner._pass_over(turns).loss)
            policy.weights[index] -= nudge
        assert gradient[index] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-3, abs=1e-6)


def test_an_update_moves_the_policy_a_little_and_says_how_far() -> None:
    trainer = Trainer(seed=0)
    update = trainer.learn(trainer.collect(1))
    assert trainer.policy.version == 1
    assert 0 < update.kl < 1
    assert update.grad_norm > 0
    assert 0 <= update.clip_fraction <= 1


def test_the_logprobs_of_a_commands_words_add_up_to_that_of_the_command() -> None:
    policy = trained(0, 2).policy
    for task in training_tasks(0)[:4]:
        for turn in play(policy, task, seed=1).turns:
            tokens, logprobs = completion_tokens(turn.decision)
            assert sum(logprobs) == pytest.approx(turn.decision.logprob)
            assert [VOCABULARY[token] for token in tokens[:-1]] == turn.decision.command.split()
            assert tokens[-1] == END


def test_every_word_that_is_spoken_has_a_token() -> None:
    for number, task in enumerate(training_tasks(3)):
        for turn in play(Policy(), task, seed=number).turns:
            assert UNKNOWN not in encode(turn.observation), turn.observation


def test_a_saved_policy_is_the_same_when_loaded(tmp_path: Path) -> None:
    policy = trained(1, 1).policy
    policy.save(tmp_path / "policy.json")
    loaded = Policy.load(tmp_path / "policy.json")
    assert loaded.weights == policy.weights
    assert loaded.version == 1


@pytest.mark.parametrize("content", [[], {"format": "other"}, {"format": "openmanus-rl-demo-policy", "weights": [1.0]}])
def test_what_is_no_policy_is_refused(content: object, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"policy\.json"):
        Policy.load(path)
