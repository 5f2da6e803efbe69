"""Records Stable-Baselines3: metrics, episodes, frames, checkpoints and evaluations.

    model.learn(100_000, callback=OpenManusCallback())

creates a run from the model's configuration and finishes it with training. To mark the run as failed if training
raises, use a block:

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
