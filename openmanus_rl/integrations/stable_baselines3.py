"""Records Stable-Baselines3: metrics, episodes, frames, checkpoints and evaluations.

    model.learn(100_000, callback=OpenManusCallback())

makes a run of its own, from what the model says of itself, and ends it with training. Where training may fail, a block
says so in the record, too:

    with OpenManusCallback(checkpoint_interval_steps=10_000) as callback:
        model.learn(100_000, callback=[callback, OpenManusEvalCallback(eval_env)])
"""

from __future__ import annotations

from openmanus_rl.integrations._extras import provided_by

with provided_by("sb3"):
    from openmanus_rl.integrations._sb3_checkpoints import load_replay_buffer, load_vec_normalize
    from openmanus_rl.integrations._sb3_evaluation import OpenManusEvalCallback
    from openmanus_rl.integrations._sb3_training import OpenManusCallback

__all__ = ["OpenManusCallback", "OpenManusEvalCallback", "load_replay_buffer", "load_vec_normalize"]
