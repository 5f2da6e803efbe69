"""What users rely on: a name that goes or changes its arguments breaks them, so each is pinned here."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import pytest

from openmanus_rl.managers.base import EditableManager, Manager
from openmanus_rl.records.rows import (
    ROW_TYPES,
    Archive,
    AuditLog,
    Invitation,
    Job,
    Member,
    MemberKey,
    Orchestrator,
    StatusChange,
    Sweep,
    Worker,
)
from openmanus_rl.transport.client import Client
from openmanus_rl.utils import supabase_client, supabase_db

MANAGERS: dict[str, set[str]] = {
    "ArchiveManager": {"find_archive", "get_archive", "list_archives", "load_metrics", "load_rollout"},
    "EnvironmentManager": {
        "confirm_environment",
        "delete_environment",
        "find_environment",
        "get_environment",
        "get_version",
        "list_environments",
        "list_recent",
        "list_versions",
        "save_environment",
        "save_preview",
    },
    "EvaluationManager": {
        "complete_evaluation",
        "create_baseline",
        "create_evaluation",
        "get_evaluation",
        "list_evaluations",
        "update_progress",
        "update_status",
    },
    "EvaluationResultManager": {"get_result", "list_results", "log_result"},
    "GenerationManager": {"get_generation", "get_prompt_ids", "list_generations", "log_generation"},
    "JobManager": {
        "append_log",
        "begin_attempt",
        "find_by_digits",
        "get_job",
        "list_jobs",
        "preview_job",
        "read_log_end",
        "read_logs",
        "request_job",
        "restart_job",
        "retry_job",
        "stop_jobs",
        "update_job",
    },
    "AuditManager": {"list_entries"},
    "InvitationManager": {"invite", "list_invitations", "revoke"},
    "KeyManager": {"create_key", "list_keys", "revoke_key"},
    "MemberManager": {
        "find_account",
        "find_member",
        "get_member",
        "list_accounts",
        "list_members",
        "make_sign_in_token",
        "remove_member",
        "save_member",
    },
    "MetricManager": {"append", "get_series", "list_names", "log"},
    "ModelCheckpointManager": {
        "delete_checkpoint",
        "get_by_number",
        "get_checkpoint",
        "get_latest",
        "list_checkpoints",
        "log_evaluation",
        "save_checkpoint",
    },
    "ObservationManager": {"get_observation", "list_observations", "log_observation"},
    "OrchestratorManager": {"claim", "list_orchestrators", "register", "renew", "retire"},
    "QueueManager": {
        "cancel_rollouts",
        "claim",
        "delete_rollouts",
        "get_worker",
        "list_workers",
        "queue_overview",
        "register_worker",
        "release",
        "renew",
        "request_evaluation",
        "request_rollouts",
        "retire",
        "retry_rollouts",
        "stop_workers",
    },
    "RewardManager": {"get_reward", "list_rewards", "log_reward"},
    "RolloutGroupManager": {"create_group", "delete_group", "get_group", "list_groups"},
    "RolloutManager": {
        "complete_rollout",
        "create_rollout",
        "delete_rollout",
        "get_rollout",
        "get_trajectory",
        "list_rollouts",
        "log_agent_state",
        "log_reward",
        "log_tool_call",
        "update_status",
    },
    "StatusHistoryManager": {"get_change", "list_changes"},
    "SweepManager": {
        "add_trial",
        "claim",
        "get_sweep",
        "list_sweeps",
        "prune_trial",
        "request_sweep",
        "stop_sweep",
        "sweep_overview",
        "update_sweep",
    },
    "TaskManager": {
        "delete_task",
        "find_task",
        "get_by_external_id",
        "get_task",
        "import_tasks",
        "list_tasks",
        "list_with_results",
        "save_task",
        "task_results",
    },
    "ToolCallManager": {"get_tool_call", "list_tool_calls", "log_tool_call"},
    "TrainingRunManager": {
        "create_run",
        "delete_run",
        "find_by_run_name",
        "finish",
        "get_by_run_name",
        "get_metrics",
        "get_run",
        "heartbeat",
        "list_rewinds",
        "list_runs",
        "stop_run",
        "update_run",
        "update_status",
    },
    "TrainingStepManager": {"complete_step", "get_step", "list_steps", "start_step", "update_status", "update_step"},
    "TurnManager": {"get_by_step_number", "get_turn", "list_turns", "log_turn"},
    "ValidationManager": {"get_validation", "list_overrides", "list_validations", "log_validation", "override"},
    "ValidatorManager": {"delete_validator", "get_validator", "list_validators", "save_validator"},
}
GUIDE: dict[str, list[str]] = {
    "TrainingRunManager.create_run": ["name", "algorithm", "environment", "config"],
    "TrainingRunManager.update_status": ["run_id", "status", "metrics"],
    "RolloutManager.create_rollout": [
        "training_run_id",
        "episode_number",
        "environment",
        "task_description",
        "metadata",
    ],
    "RolloutManager.log_agent_state": [
        "rollout_id",
        "step_number",
        "observation",
        "action",
        "thought",
        "memory_summary",
    ],
    "RolloutManager.log_tool_call": [
        "agent_state_id",
        "tool_name",
        "tool_input",
        "tool_output",
        "success",
        "execution_time_ms",
        "error_message",
    ],
    "RolloutManager.log_reward": ["rollout_id", "step_number", "reward", "reward_type", "details"],
    "RolloutManager.complete_rollout": ["rollout_id", "status", "total_reward", "step_count"],
}


# Rows of kinds of records that can change.
EDITABLE = {
    "EnvironmentManager", "EvaluationManager", "EvaluationResultManager", "ModelCheckpointManager",
    "RolloutGroupManager", "RolloutManager", "TaskManager", "TrainingRunManager", "TrainingStepManager",
    "ValidationManager", "ValidatorManager",
}  # fmt: skip


def own_names(manager: type) -> set[str]:
    return {name for name, value in vars(manager).items() if isinstance(value, classmethod) and name[0] != "_"}


def test_the_guides_module_has_exactly_these_names() -> None:
    further = {"BatchResult", "MetricPoint", "Refusal", "write_batch"}

    assert set(supabase_db.__all__) == MANAGERS.keys() | further
    assert supabase_client.__all__ == ["get_supabase"]


@pytest.mark.parametrize("name", MANAGERS)
def test_a_manager_has_exactly_these_methods(name: str) -> None:
    manager = getattr(supabase_db, name)

    assert own_names(manager) == MANAGERS[name]
    assert issubclass(manager, Manager)


@pytest.mark.parametrize("name", MANAGERS)
def test_a_manager_of_what_can_change_updates_it(name: str) -> None:
    assert issubclass(getattr(supabase_db, name), EditableManager) == (name in EDITABLE)


@pytest.mark.parametrize("name", MANAGERS)
def test_a_manager_returns_rows_of_its_table(name: str) -> None:
    manager = getattr(supabase_db, name)

    row_types = {
        **ROW_TYPES,
        "jobs": Job,
        "audit_log": AuditLog,
        "invitations": Invitation,
        "member_keys": MemberKey,
        "archives": Archive,
        "members": Member,
        "orchestrators": Orchestrator,
        "status_history": StatusChange,
        "sweeps": Sweep,
        "workers": Worker,
    }
    assert manager.row_type is row_types[manager.table]
    assert manager.using(Client.from_url_and_key("http://supabase.test", "sb_secret_x")).row_type is manager.row_type


@pytest.mark.parametrize("name", MANAGERS)
def test_what_a_manager_returns_is_typed(name: str) -> None:
    manager = getattr(supabase_db, name)
    returned = {method: get_type_hints(getattr(manager, method))["return"] for method in own_names(manager)}

    assert {method for method, type_ in returned.items() if "dict[str, typing.Any]" in str(type_)} <= {"get_metrics"}


@pytest.mark.parametrize("name", GUIDE)
def test_the_guides_calls_may_be_made_by_position_and_by_name(name: str) -> None:
    manager, method = name.split(".")
    parameters = inspect.signature(getattr(getattr(supabase_db, manager), method)).parameters

    by_position = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert by_position[: len(GUIDE[name])] == GUIDE[name]


@pytest.mark.parametrize("name", MANAGERS)
def test_everything_public_is_documented(name: str) -> None:
    manager = getattr(supabase_db, name)

    undocumented = [method for method in own_names(manager) if not getattr(manager, method).__doc__]
    assert manager.__doc__
    assert undocumented == []
