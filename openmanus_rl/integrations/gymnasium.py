"""Records Gymnasium environments: an episode as a rollout, a step as a turn.

    env = RecordEpisodes(gymnasium.make("CartPole-v1"), run=run)
    envs = RecordVectorEpisodes(gymnasium.make_vec("CartPole-v1", num_envs=8), run=run)

In a worker process, wrap the environment without `run`: it joins the run of the process that started it, through an
environment variable.
"""

from __future__ import annotations

from openmanus_rl.integrations._extras import provided_by

with provided_by("gymnasium"):
    from openmanus_rl.integrations._gymnasium_single import RecordEpisodes
    from openmanus_rl.integrations._gymnasium_vector import RecordVectorEpisodes

__all__ = ["RecordEpisodes", "RecordVectorEpisodes"]
