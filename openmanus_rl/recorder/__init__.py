"""The recorder: a training loop's way to the record, on which nothing waits for the network."""

from openmanus_rl.recorder.blocks import Evaluation, Group, Rollout, Step
from openmanus_rl.recorder.columns import WholeRollout
from openmanus_rl.recorder.init import init, join
from openmanus_rl.recorder.recording import Stats
from openmanus_rl.recorder.run import Run

__all__ = ["Evaluation", "Group", "Rollout", "Run", "Stats", "Step", "WholeRollout", "init", "join"]
