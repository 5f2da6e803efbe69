"""The recorder: a training loop's way to the record, which never blocks and never loses."""

from openmanus_rl.recorder.blocks import Evaluation, Group, Rollout, Step
from openmanus_rl.recorder.init import init
from openmanus_rl.recorder.recording import Stats
from openmanus_rl.recorder.run import Run

__all__ = ["Evaluation", "Group", "Rollout", "Run", "Stats", "Step", "init"]
