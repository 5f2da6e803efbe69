"""What is recorded: ids, statuses, kinds, codes, and a model of each table's rows, generated from the migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openmanus_rl.records.ids import Id, new_id

if TYPE_CHECKING:
    from openmanus_rl.records.rows import PublicAgentStates as AgentState
    from openmanus_rl.records.rows import PublicEnvironments as Environment
    from openmanus_rl.records.rows import PublicEvaluationResults as EvaluationResult
    from openmanus_rl.records.rows import PublicEvaluations as Evaluation
    from openmanus_rl.records.rows import PublicGenerations as Generation
    from openmanus_rl.records.rows import PublicJobs as Job
    from openmanus_rl.records.rows import PublicMedia as Media
    from openmanus_rl.records.rows import PublicMembers as Member
    from openmanus_rl.records.rows import PublicModelCheckpoints as ModelCheckpoint
    from openmanus_rl.records.rows import PublicObservations as Observation
    from openmanus_rl.records.rows import PublicRewards as Reward
    from openmanus_rl.records.rows import PublicRolloutGroups as RolloutGroup
    from openmanus_rl.records.rows import PublicRollouts as Rollout
    from openmanus_rl.records.rows import PublicRunOverview as RunOverview
    from openmanus_rl.records.rows import PublicStatusHistory as StatusChange
    from openmanus_rl.records.rows import PublicTasks as Task
    from openmanus_rl.records.rows import PublicToolCalls as ToolCall
    from openmanus_rl.records.rows import PublicTrainingRuns as TrainingRun
    from openmanus_rl.records.rows import PublicTrainingSteps as TrainingStep
    from openmanus_rl.records.rows import PublicValidations as Validation
    from openmanus_rl.records.rows import PublicValidators as Validator

__all__ = [
    "AgentState",
    "Environment",
    "Evaluation",
    "EvaluationResult",
    "Generation",
    "Id",
    "Job",
    "Media",
    "Member",
    "ModelCheckpoint",
    "Observation",
    "Reward",
    "Rollout",
    "RolloutGroup",
    "RunOverview",
    "StatusChange",
    "Task",
    "ToolCall",
    "TrainingRun",
    "TrainingStep",
    "Validation",
    "Validator",
    "new_id",
]

MODELS = {
    "AgentState": "PublicAgentStates",
    "Environment": "PublicEnvironments",
    "EvaluationResult": "PublicEvaluationResults",
    "Evaluation": "PublicEvaluations",
    "Generation": "PublicGenerations",
    "Job": "PublicJobs",
    "Media": "PublicMedia",
    "Member": "PublicMembers",
    "ModelCheckpoint": "PublicModelCheckpoints",
    "Observation": "PublicObservations",
    "Reward": "PublicRewards",
    "RolloutGroup": "PublicRolloutGroups",
    "Rollout": "PublicRollouts",
    "RunOverview": "PublicRunOverview",
    "StatusChange": "PublicStatusHistory",
    "Task": "PublicTasks",
    "ToolCall": "PublicToolCalls",
    "TrainingRun": "PublicTrainingRuns",
    "TrainingStep": "PublicTrainingSteps",
    "Validation": "PublicValidations",
    "Validator": "PublicValidators",
}


def __getattr__(name: str) -> Any:
    # Loaded when it is used: building the models takes longer than all else that a command imports.
    if name in MODELS:
        from openmanus_rl.records import rows

        return getattr(rows, MODELS[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
