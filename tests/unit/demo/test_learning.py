"""The demo's agent really learns, and what is told of its choices is true."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from openmanus_rl.demo import house
from openmanus_rl.demo.agent import END_TOKEN, MODEL, Policy, completion_tokens, encode
from openmanus_rl.demo.house import make_tasks
from openmanus_rl.demo.learner import Episode, Trainer, assign_advantages, measure, play
from openmanus_rl.demo.train import DEFAULT_STEPS


def trained(seed: int, steps: int) -> Trainer:
    trainer = Trainer(seed=seed)
    for step in range(1, steps + 1):
        trainer.learn(trainer.collect(step))
    return trainer


def group(seed: int = 0, size: int = 6) -> list[Episode]:
    return [play(Policy(), make_tasks("train", seed)[0], seed=number) for number in range(size)]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_trained_agent_beats_the_untrained_one_by_far_on_held_out_tasks(seed: int) -> None:
    baseline = measure(Trainer(seed=seed).examine())
    final = measure(trained(seed, DEFAULT_STEPS).examine())
    assert baseline["success_rate"] < 0.3
    assert final["success_rate"] > baseline["success_rate"] + 0.4
    assert final["mean_reward"] > baseline["mean_reward"] + 0.8
    assert final["mean_turns"] < baseline["mean_turns"]


def test_the_same_seed_gives_the_same_agent_and_another_seed_another() -> None:
    first, again, other = trained(5, 2), trained(5, 2), trained(6, 2)
    assert first.policy.weights == again.policy.weights
    assert first.policy.weights != other.policy.weights
    assert [e.total_reward for e in first.examine()] == [e.total_reward for e in again.examine()]


def test_advantages_are_relative_to_the_siblings() -> None:
    episodes = group()
    assign_advantages(episodes)
    advantages = [{turn.advantage for turn in episode.turns} for episode in episodes]
    assert [len(of_an_episode) for of_an_episode in advantages] == [1] * 6
    firsts = [episode.turns[0].advantage for episode in episodes]
    rewards = [episode.total_reward for episode in episodes]
    assert sum(firsts) == pytest.approx(0, abs=1e-9)
    assert sorted(range(6), key=firsts.__getitem__) == sorted(range(6), key=rewards.__getitem__)


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    trainer = trained(0, 1)
    turns = [turn for episodes in trainer.collect(2) for episode in episodes for turn in episode.turns]
    weights = trainer.policy.weights
    weights.update({name: weight + 0.1 * math.sin(i) for i, (name, weight) in enumerate(weights.items())})
    _, gradient, _ = trainer.loss_and_gradient(turns)
    for name in sorted(gradient, key=lambda name: -abs(gradient[name]))[:5]:
        losses = []
        for nudge in (1e-5, -1e-5):
            weights[name] += nudge
            losses.append(trainer.loss_and_gradient(turns)[0])
            weights[name] -= nudge
        assert gradient[name] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-3, abs=1e-6)


def test_an_update_moves_the_policy_a_little_and_says_how_far() -> None:
    trainer = Trainer(seed=0)
    update = trainer.learn(trainer.collect(1))
    assert trainer.policy.version == 1
    assert 0 < update["kl"] < 1
    assert update["grad_norm"] > 0
    assert 0 <= update["clip_fraction"] <= 1


def test_the_logprobs_of_a_commands_words_add_up_to_that_of_the_command() -> None:
    policy = trained(0, 2).policy
    for task in make_tasks("train", 0)[:4]:
        for turn in play(policy, task, seed=1).turns:
            tokens, logprobs = completion_tokens(turn.decision)
            assert sum(logprobs) == pytest.approx(math.log(turn.decision.probabilities[turn.decision.chosen]))
            assert tokens == [*encode(turn.decision.command), END_TOKEN]


def test_every_word_that_is_spoken_has_a_token_of_its_own() -> None:
    spoken = {
        word
        for task in make_tasks("train", 3)
        for turn in play(Policy(), task, seed=1).turns
        for word in re.findall(r"\w+|[^\w\s]", " ".join([turn.record["observation"], *turn.decision.commands]).lower())
    }
    assert spoken >= {*house.ROOMS, *house.CONTAINERS, "."}
    assert len({encode(word)[0] for word in spoken}) == len(spoken)
    assert END_TOKEN not in {encode(word)[0] for word in spoken}


def test_a_saved_policy_is_the_same_when_loaded(tmp_path: Path) -> None:
    policy = trained(1, 1).policy
    policy.save(tmp_path / "policy.json")
    loaded = Policy.load(tmp_path / "policy.json")
    assert loaded.weights == policy.weights
    assert loaded.version == 1


@pytest.mark.parametrize("content", [[], {"model": "other", "weights": {}}, {"model": MODEL, "weights": [1.0]}])
def test_what_is_no_policy_is_refused(content: object, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"policy\.json"):
        Policy.load(path)
