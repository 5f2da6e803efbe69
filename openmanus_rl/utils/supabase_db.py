"""The integration guide's import path of the managers."""

from openmanus_rl.managers.archives import ArchiveManager
from openmanus_rl.managers.batches import BatchResult, Refusal, write_batch
from openmanus_rl.managers.checkpoints import EvaluationResultManager, ModelCheckpointManager
from openmanus_rl.managers.environments import EnvironmentManager
from openmanus_rl.managers.evaluations import EvaluationManager
from openmanus_rl.managers.groups import RolloutGroupManager
from openmanus_rl.managers.jobs import JobManager, OrchestratorManager
from openmanus_rl.managers.members import AuditManager, InvitationManager, KeyManager, MemberManager
from openmanus_rl.managers.metrics import MetricManager, MetricPoint
from openmanus_rl.managers.queue import QueueManager
from openmanus_rl.managers.rewards import RewardManager
from openmanus_rl.managers.rollouts import RolloutManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.managers.status_history import StatusHistoryManager
from openmanus_rl.managers.steps import TrainingStepManager
from openmanus_rl.managers.sweeps import SweepManager
from openmanus_rl.managers.tasks import TaskManager, ValidatorManager
from openmanus_rl.managers.tool_calls import ToolCallManager
from openmanus_rl.managers.turn_parts import GenerationManager, ObservationManager
from openmanus_rl.managers.turns import TurnManager
from openmanus_rl.managers.validations import ValidationManager

__all__ = [
    "ArchiveManager",
    "AuditManager",
    "BatchResult",
    "EnvironmentManager",
    "EvaluationManager",
    "EvaluationResultManager",
    "GenerationManager",
    "InvitationManager",
    "JobManager",
    "KeyManager",
    "MemberManager",
    "MetricManager",
    "MetricPoint",
    "ModelCheckpointManager",
    "ObservationManager",
    "OrchestratorManager",
    "QueueManager",
    "Refusal",
    "RewardManager",
    "RolloutGroupManager",
    "RolloutManager",
    "StatusHistoryManager",
    "SweepManager",
    "TaskManager",
    "ToolCallManager",
    "TrainingRunManager",
    "TrainingStepManager",
    "TurnManager",
    "ValidationManager",
    "ValidatorManager",
    "write_batch",
]
