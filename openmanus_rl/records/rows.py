# Written by scripts/generate_types from the migrations. Do not edit.
# ruff: noqa
# fmt: off
from __future__ import annotations

import datetime
import uuid
from typing import (
    Annotated,
    Any,
    List,
    Literal,
    Optional,
    TypedDict,
)
from typing_extensions import NotRequired, TypeAlias

from pydantic import BaseModel, Field, JsonValue



class PublicActivity(BaseModel):
    changed_at: datetime.datetime = Field(alias="changed_at")
    id: uuid.UUID = Field(alias="id")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")

class PublicActivityInsert(TypedDict):
    changed_at: NotRequired[Annotated[datetime.datetime, Field(alias="changed_at")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicActivityUpdate(TypedDict):
    changed_at: NotRequired[Annotated[datetime.datetime, Field(alias="changed_at")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicAgentStates(BaseModel):
    action: Optional[str] = Field(alias="action")
    chat: Optional[List[int]] = Field(alias="chat")
    created_at: datetime.datetime = Field(alias="created_at")
    duration_ms: Optional[float] = Field(alias="duration_ms")
    environment_duration_ms: Optional[float] = Field(alias="environment_duration_ms")
    id: uuid.UUID = Field(alias="id")
    info: Optional[JsonValue] = Field(alias="info")
    memory_summary: Optional[str] = Field(alias="memory_summary")
    messages: Optional[JsonValue] = Field(alias="messages")
    messages_from: Optional[int] = Field(alias="messages_from")
    model_duration_ms: Optional[float] = Field(alias="model_duration_ms")
    model_response: Optional[JsonValue] = Field(alias="model_response")
    observation: Optional[str] = Field(alias="observation")
    rollout_id: uuid.UUID = Field(alias="rollout_id")
    step_number: int = Field(alias="step_number")
    thought: Optional[str] = Field(alias="thought")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")

class PublicAgentStatesInsert(TypedDict):
    action: NotRequired[Annotated[Optional[str], Field(alias="action")]]
    chat: NotRequired[Annotated[Optional[List[int]], Field(alias="chat")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    duration_ms: NotRequired[Annotated[Optional[float], Field(alias="duration_ms")]]
    environment_duration_ms: NotRequired[Annotated[Optional[float], Field(alias="environment_duration_ms")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    info: NotRequired[Annotated[Optional[JsonValue], Field(alias="info")]]
    memory_summary: NotRequired[Annotated[Optional[str], Field(alias="memory_summary")]]
    messages: NotRequired[Annotated[Optional[JsonValue], Field(alias="messages")]]
    messages_from: NotRequired[Annotated[Optional[int], Field(alias="messages_from")]]
    model_duration_ms: NotRequired[Annotated[Optional[float], Field(alias="model_duration_ms")]]
    model_response: NotRequired[Annotated[Optional[JsonValue], Field(alias="model_response")]]
    observation: NotRequired[Annotated[Optional[str], Field(alias="observation")]]
    rollout_id: Annotated[uuid.UUID, Field(alias="rollout_id")]
    step_number: Annotated[int, Field(alias="step_number")]
    thought: NotRequired[Annotated[Optional[str], Field(alias="thought")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicAgentStatesUpdate(TypedDict):
    action: NotRequired[Annotated[Optional[str], Field(alias="action")]]
    chat: NotRequired[Annotated[Optional[List[int]], Field(alias="chat")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    duration_ms: NotRequired[Annotated[Optional[float], Field(alias="duration_ms")]]
    environment_duration_ms: NotRequired[Annotated[Optional[float], Field(alias="environment_duration_ms")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    info: NotRequired[Annotated[Optional[JsonValue], Field(alias="info")]]
    memory_summary: NotRequired[Annotated[Optional[str], Field(alias="memory_summary")]]
    messages: NotRequired[Annotated[Optional[JsonValue], Field(alias="messages")]]
    messages_from: NotRequired[Annotated[Optional[int], Field(alias="messages_from")]]
    model_duration_ms: NotRequired[Annotated[Optional[float], Field(alias="model_duration_ms")]]
    model_response: NotRequired[Annotated[Optional[JsonValue], Field(alias="model_response")]]
    observation: NotRequired[Annotated[Optional[str], Field(alias="observation")]]
    rollout_id: NotRequired[Annotated[uuid.UUID, Field(alias="rollout_id")]]
    step_number: NotRequired[Annotated[int, Field(alias="step_number")]]
    thought: NotRequired[Annotated[Optional[str], Field(alias="thought")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicEnvironments(BaseModel):
    created_at: datetime.datetime = Field(alias="created_at")
    description: Optional[str] = Field(alias="description")
    id: uuid.UUID = Field(alias="id")
    kind: Optional[str] = Field(alias="kind")
    name: str = Field(alias="name")
    owner_id: Optional[uuid.UUID] = Field(alias="owner_id")
    source: Optional[str] = Field(alias="source")
    spec: JsonValue = Field(alias="spec")
    updated_at: datetime.datetime = Field(alias="updated_at")

class PublicEnvironmentsInsert(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    description: NotRequired[Annotated[Optional[str], Field(alias="description")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kind: NotRequired[Annotated[Optional[str], Field(alias="kind")]]
    name: Annotated[str, Field(alias="name")]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    source: NotRequired[Annotated[Optional[str], Field(alias="source")]]
    spec: NotRequired[Annotated[JsonValue, Field(alias="spec")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicEnvironmentsUpdate(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    description: NotRequired[Annotated[Optional[str], Field(alias="description")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kind: NotRequired[Annotated[Optional[str], Field(alias="kind")]]
    name: NotRequired[Annotated[str, Field(alias="name")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    source: NotRequired[Annotated[Optional[str], Field(alias="source")]]
    spec: NotRequired[Annotated[JsonValue, Field(alias="spec")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicEvaluationResults(BaseModel):
    checkpoint_id: uuid.UUID = Field(alias="checkpoint_id")
    created_at: datetime.datetime = Field(alias="created_at")
    environment: str = Field(alias="environment")
    episode_count: Optional[int] = Field(alias="episode_count")
    evaluation_id: Optional[uuid.UUID] = Field(alias="evaluation_id")
    id: uuid.UUID = Field(alias="id")
    mean_reward: Optional[float] = Field(alias="mean_reward")
    mean_turns: Optional[float] = Field(alias="mean_turns")
    metrics: JsonValue = Field(alias="metrics")
    result_path: Optional[str] = Field(alias="result_path")
    success_rate: Optional[float] = Field(alias="success_rate")
    task_id: Optional[uuid.UUID] = Field(alias="task_id")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")
    updated_at: datetime.datetime = Field(alias="updated_at")

class PublicEvaluationResultsInsert(TypedDict):
    checkpoint_id: Annotated[uuid.UUID, Field(alias="checkpoint_id")]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    environment: Annotated[str, Field(alias="environment")]
    episode_count: NotRequired[Annotated[Optional[int], Field(alias="episode_count")]]
    evaluation_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="evaluation_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    mean_reward: NotRequired[Annotated[Optional[float], Field(alias="mean_reward")]]
    mean_turns: NotRequired[Annotated[Optional[float], Field(alias="mean_turns")]]
    metrics: NotRequired[Annotated[JsonValue, Field(alias="metrics")]]
    result_path: NotRequired[Annotated[Optional[str], Field(alias="result_path")]]
    success_rate: NotRequired[Annotated[Optional[float], Field(alias="success_rate")]]
    task_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="task_id")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicEvaluationResultsUpdate(TypedDict):
    checkpoint_id: NotRequired[Annotated[uuid.UUID, Field(alias="checkpoint_id")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    environment: NotRequired[Annotated[str, Field(alias="environment")]]
    episode_count: NotRequired[Annotated[Optional[int], Field(alias="episode_count")]]
    evaluation_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="evaluation_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    mean_reward: NotRequired[Annotated[Optional[float], Field(alias="mean_reward")]]
    mean_turns: NotRequired[Annotated[Optional[float], Field(alias="mean_turns")]]
    metrics: NotRequired[Annotated[JsonValue, Field(alias="metrics")]]
    result_path: NotRequired[Annotated[Optional[str], Field(alias="result_path")]]
    success_rate: NotRequired[Annotated[Optional[float], Field(alias="success_rate")]]
    task_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="task_id")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicEvaluations(BaseModel):
    checkpoint_id: Optional[uuid.UUID] = Field(alias="checkpoint_id")
    created_at: datetime.datetime = Field(alias="created_at")
    environment: Optional[str] = Field(alias="environment")
    finished_at: Optional[datetime.datetime] = Field(alias="finished_at")
    id: uuid.UUID = Field(alias="id")
    kind: str = Field(alias="kind")
    mean_reward: Optional[float] = Field(alias="mean_reward")
    mean_turns: Optional[float] = Field(alias="mean_turns")
    measured: List[str] = Field(alias="measured")
    metadata: JsonValue = Field(alias="metadata")
    model: Optional[str] = Field(alias="model")
    name: Optional[str] = Field(alias="name")
    owner_id: Optional[uuid.UUID] = Field(alias="owner_id")
    progress: Optional[float] = Field(alias="progress")
    rewound_at: Optional[datetime.datetime] = Field(alias="rewound_at")
    started_at: Optional[datetime.datetime] = Field(alias="started_at")
    status: str = Field(alias="status")
    status_change_id: Optional[uuid.UUID] = Field(alias="status_change_id")
    status_message: Optional[str] = Field(alias="status_message")
    step: Optional[int] = Field(alias="step")
    success_rate: Optional[float] = Field(alias="success_rate")
    timeline: int = Field(alias="timeline")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")
    updated_at: datetime.datetime = Field(alias="updated_at")

class PublicEvaluationsInsert(TypedDict):
    checkpoint_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="checkpoint_id")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    environment: NotRequired[Annotated[Optional[str], Field(alias="environment")]]
    finished_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="finished_at")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kind: NotRequired[Annotated[str, Field(alias="kind")]]
    mean_reward: NotRequired[Annotated[Optional[float], Field(alias="mean_reward")]]
    mean_turns: NotRequired[Annotated[Optional[float], Field(alias="mean_turns")]]
    measured: NotRequired[Annotated[List[str], Field(alias="measured")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    model: NotRequired[Annotated[Optional[str], Field(alias="model")]]
    name: NotRequired[Annotated[Optional[str], Field(alias="name")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    progress: NotRequired[Annotated[Optional[float], Field(alias="progress")]]
    rewound_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="rewound_at")]]
    started_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="started_at")]]
    status: NotRequired[Annotated[str, Field(alias="status")]]
    status_change_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="status_change_id")]]
    status_message: NotRequired[Annotated[Optional[str], Field(alias="status_message")]]
    step: NotRequired[Annotated[Optional[int], Field(alias="step")]]
    success_rate: NotRequired[Annotated[Optional[float], Field(alias="success_rate")]]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicEvaluationsUpdate(TypedDict):
    checkpoint_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="checkpoint_id")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    environment: NotRequired[Annotated[Optional[str], Field(alias="environment")]]
    finished_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="finished_at")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kind: NotRequired[Annotated[str, Field(alias="kind")]]
    mean_reward: NotRequired[Annotated[Optional[float], Field(alias="mean_reward")]]
    mean_turns: NotRequired[Annotated[Optional[float], Field(alias="mean_turns")]]
    measured: NotRequired[Annotated[List[str], Field(alias="measured")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    model: NotRequired[Annotated[Optional[str], Field(alias="model")]]
    name: NotRequired[Annotated[Optional[str], Field(alias="name")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    progress: NotRequired[Annotated[Optional[float], Field(alias="progress")]]
    rewound_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="rewound_at")]]
    started_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="started_at")]]
    status: NotRequired[Annotated[str, Field(alias="status")]]
    status_change_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="status_change_id")]]
    status_message: NotRequired[Annotated[Optional[str], Field(alias="status_message")]]
    step: NotRequired[Annotated[Optional[int], Field(alias="step")]]
    success_rate: NotRequired[Annotated[Optional[float], Field(alias="success_rate")]]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicGenerations(BaseModel):
    advantages: Optional[List[float]] = Field(alias="advantages")
    agent_state_id: uuid.UUID = Field(alias="agent_state_id")
    completion_ids: Optional[List[int]] = Field(alias="completion_ids")
    finish_reason: Optional[str] = Field(alias="finish_reason")
    id: uuid.UUID = Field(alias="id")
    logprobs: Optional[List[float]] = Field(alias="logprobs")
    mask: Optional[List[bool]] = Field(alias="mask")
    model: Optional[str] = Field(alias="model")
    policy_version: Optional[int] = Field(alias="policy_version")
    position: int = Field(alias="position")
    prompt: Optional[List[int]] = Field(alias="prompt")
    prompt_ids: Optional[List[int]] = Field(alias="prompt_ids")
    tokens_from: Optional[int] = Field(alias="tokens_from")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")

class PublicGenerationsInsert(TypedDict):
    advantages: NotRequired[Annotated[Optional[List[float]], Field(alias="advantages")]]
    agent_state_id: Annotated[uuid.UUID, Field(alias="agent_state_id")]
    completion_ids: NotRequired[Annotated[Optional[List[int]], Field(alias="completion_ids")]]
    finish_reason: NotRequired[Annotated[Optional[str], Field(alias="finish_reason")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    logprobs: NotRequired[Annotated[Optional[List[float]], Field(alias="logprobs")]]
    mask: NotRequired[Annotated[Optional[List[bool]], Field(alias="mask")]]
    model: NotRequired[Annotated[Optional[str], Field(alias="model")]]
    policy_version: NotRequired[Annotated[Optional[int], Field(alias="policy_version")]]
    position: NotRequired[Annotated[int, Field(alias="position")]]
    prompt: NotRequired[Annotated[Optional[List[int]], Field(alias="prompt")]]
    prompt_ids: NotRequired[Annotated[Optional[List[int]], Field(alias="prompt_ids")]]
    tokens_from: NotRequired[Annotated[Optional[int], Field(alias="tokens_from")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicGenerationsUpdate(TypedDict):
    advantages: NotRequired[Annotated[Optional[List[float]], Field(alias="advantages")]]
    agent_state_id: NotRequired[Annotated[uuid.UUID, Field(alias="agent_state_id")]]
    completion_ids: NotRequired[Annotated[Optional[List[int]], Field(alias="completion_ids")]]
    finish_reason: NotRequired[Annotated[Optional[str], Field(alias="finish_reason")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    logprobs: NotRequired[Annotated[Optional[List[float]], Field(alias="logprobs")]]
    mask: NotRequired[Annotated[Optional[List[bool]], Field(alias="mask")]]
    model: NotRequired[Annotated[Optional[str], Field(alias="model")]]
    policy_version: NotRequired[Annotated[Optional[int], Field(alias="policy_version")]]
    position: NotRequired[Annotated[int, Field(alias="position")]]
    prompt: NotRequired[Annotated[Optional[List[int]], Field(alias="prompt")]]
    prompt_ids: NotRequired[Annotated[Optional[List[int]], Field(alias="prompt_ids")]]
    tokens_from: NotRequired[Annotated[Optional[int], Field(alias="tokens_from")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicJobs(BaseModel):
    backend: str = Field(alias="backend")
    cost_usd: Optional[float] = Field(alias="cost_usd")
    created_at: datetime.datetime = Field(alias="created_at")
    external_id: Optional[str] = Field(alias="external_id")
    finished_at: Optional[datetime.datetime] = Field(alias="finished_at")
    id: uuid.UUID = Field(alias="id")
    log_path: Optional[str] = Field(alias="log_path")
    name: Optional[str] = Field(alias="name")
    owner_id: Optional[uuid.UUID] = Field(alias="owner_id")
    resources: JsonValue = Field(alias="resources")
    spec: JsonValue = Field(alias="spec")
    started_at: Optional[datetime.datetime] = Field(alias="started_at")
    status: str = Field(alias="status")
    status_change_id: Optional[uuid.UUID] = Field(alias="status_change_id")
    status_message: Optional[str] = Field(alias="status_message")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")
    updated_at: datetime.datetime = Field(alias="updated_at")

class PublicJobsInsert(TypedDict):
    backend: Annotated[str, Field(alias="backend")]
    cost_usd: NotRequired[Annotated[Optional[float], Field(alias="cost_usd")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    external_id: NotRequired[Annotated[Optional[str], Field(alias="external_id")]]
    finished_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="finished_at")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    log_path: NotRequired[Annotated[Optional[str], Field(alias="log_path")]]
    name: NotRequired[Annotated[Optional[str], Field(alias="name")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    resources: NotRequired[Annotated[JsonValue, Field(alias="resources")]]
    spec: NotRequired[Annotated[JsonValue, Field(alias="spec")]]
    started_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="started_at")]]
    status: NotRequired[Annotated[str, Field(alias="status")]]
    status_change_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="status_change_id")]]
    status_message: NotRequired[Annotated[Optional[str], Field(alias="status_message")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicJobsUpdate(TypedDict):
    backend: NotRequired[Annotated[str, Field(alias="backend")]]
    cost_usd: NotRequired[Annotated[Optional[float], Field(alias="cost_usd")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    external_id: NotRequired[Annotated[Optional[str], Field(alias="external_id")]]
    finished_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="finished_at")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    log_path: NotRequired[Annotated[Optional[str], Field(alias="log_path")]]
    name: NotRequired[Annotated[Optional[str], Field(alias="name")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    resources: NotRequired[Annotated[JsonValue, Field(alias="resources")]]
    spec: NotRequired[Annotated[JsonValue, Field(alias="spec")]]
    started_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="started_at")]]
    status: NotRequired[Annotated[str, Field(alias="status")]]
    status_change_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="status_change_id")]]
    status_message: NotRequired[Annotated[Optional[str], Field(alias="status_message")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicMedia(BaseModel):
    agent_state_id: Optional[uuid.UUID] = Field(alias="agent_state_id")
    bucket: str = Field(alias="bucket")
    checksum: Optional[str] = Field(alias="checksum")
    content_type: Optional[str] = Field(alias="content_type")
    created_at: datetime.datetime = Field(alias="created_at")
    duration_ms: Optional[float] = Field(alias="duration_ms")
    height: Optional[int] = Field(alias="height")
    id: uuid.UUID = Field(alias="id")
    kind: str = Field(alias="kind")
    metadata: JsonValue = Field(alias="metadata")
    owner_id: Optional[uuid.UUID] = Field(alias="owner_id")
    path: str = Field(alias="path")
    rollout_id: Optional[uuid.UUID] = Field(alias="rollout_id")
    size_bytes: Optional[int] = Field(alias="size_bytes")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")
    width: Optional[int] = Field(alias="width")

class PublicMediaInsert(TypedDict):
    agent_state_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="agent_state_id")]]
    bucket: NotRequired[Annotated[str, Field(alias="bucket")]]
    checksum: NotRequired[Annotated[Optional[str], Field(alias="checksum")]]
    content_type: NotRequired[Annotated[Optional[str], Field(alias="content_type")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    duration_ms: NotRequired[Annotated[Optional[float], Field(alias="duration_ms")]]
    height: NotRequired[Annotated[Optional[int], Field(alias="height")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kind: Annotated[str, Field(alias="kind")]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    path: Annotated[str, Field(alias="path")]
    rollout_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="rollout_id")]]
    size_bytes: NotRequired[Annotated[Optional[int], Field(alias="size_bytes")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    width: NotRequired[Annotated[Optional[int], Field(alias="width")]]

class PublicMediaUpdate(TypedDict):
    agent_state_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="agent_state_id")]]
    bucket: NotRequired[Annotated[str, Field(alias="bucket")]]
    checksum: NotRequired[Annotated[Optional[str], Field(alias="checksum")]]
    content_type: NotRequired[Annotated[Optional[str], Field(alias="content_type")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    duration_ms: NotRequired[Annotated[Optional[float], Field(alias="duration_ms")]]
    height: NotRequired[Annotated[Optional[int], Field(alias="height")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kind: NotRequired[Annotated[str, Field(alias="kind")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    path: NotRequired[Annotated[str, Field(alias="path")]]
    rollout_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="rollout_id")]]
    size_bytes: NotRequired[Annotated[Optional[int], Field(alias="size_bytes")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    width: NotRequired[Annotated[Optional[int], Field(alias="width")]]

class PublicMembers(BaseModel):
    created_at: datetime.datetime = Field(alias="created_at")
    display_name: Optional[str] = Field(alias="display_name")
    role: str = Field(alias="role")
    updated_at: datetime.datetime = Field(alias="updated_at")
    user_id: uuid.UUID = Field(alias="user_id")

class PublicMembersInsert(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    display_name: NotRequired[Annotated[Optional[str], Field(alias="display_name")]]
    role: Annotated[str, Field(alias="role")]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]
    user_id: Annotated[uuid.UUID, Field(alias="user_id")]

class PublicMembersUpdate(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    display_name: NotRequired[Annotated[Optional[str], Field(alias="display_name")]]
    role: NotRequired[Annotated[str, Field(alias="role")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]
    user_id: NotRequired[Annotated[uuid.UUID, Field(alias="user_id")]]

class PublicMetricChunks(BaseModel):
    first_step: int = Field(alias="first_step")
    id: uuid.UUID = Field(alias="id")
    last_step: int = Field(alias="last_step")
    name: str = Field(alias="name")
    steps: List[int] = Field(alias="steps")
    timeline: int = Field(alias="timeline")
    times: List[datetime.datetime] = Field(alias="times")
    training_run_id: uuid.UUID = Field(alias="training_run_id")
    updated_at: datetime.datetime = Field(alias="updated_at")
    values: List[float] = Field(alias="values")
    visible_to: Optional[int] = Field(alias="visible_to")

class PublicMetricChunksInsert(TypedDict):
    first_step: Annotated[int, Field(alias="first_step")]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    last_step: Annotated[int, Field(alias="last_step")]
    name: Annotated[str, Field(alias="name")]
    steps: Annotated[List[int], Field(alias="steps")]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    times: Annotated[List[datetime.datetime], Field(alias="times")]
    training_run_id: Annotated[uuid.UUID, Field(alias="training_run_id")]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]
    values: Annotated[List[float], Field(alias="values")]
    visible_to: NotRequired[Annotated[Optional[int], Field(alias="visible_to")]]

class PublicMetricChunksUpdate(TypedDict):
    first_step: NotRequired[Annotated[int, Field(alias="first_step")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    last_step: NotRequired[Annotated[int, Field(alias="last_step")]]
    name: NotRequired[Annotated[str, Field(alias="name")]]
    steps: NotRequired[Annotated[List[int], Field(alias="steps")]]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    times: NotRequired[Annotated[List[datetime.datetime], Field(alias="times")]]
    training_run_id: NotRequired[Annotated[uuid.UUID, Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]
    values: NotRequired[Annotated[List[float], Field(alias="values")]]
    visible_to: NotRequired[Annotated[Optional[int], Field(alias="visible_to")]]

class PublicModelCheckpoints(BaseModel):
    checkpoint_number: int = Field(alias="checkpoint_number")
    checksum: Optional[str] = Field(alias="checksum")
    created_at: datetime.datetime = Field(alias="created_at")
    id: uuid.UUID = Field(alias="id")
    metadata: JsonValue = Field(alias="metadata")
    metrics: JsonValue = Field(alias="metrics")
    rewound_at: Optional[datetime.datetime] = Field(alias="rewound_at")
    size_bytes: Optional[int] = Field(alias="size_bytes")
    step: Optional[int] = Field(alias="step")
    storage_path: Optional[str] = Field(alias="storage_path")
    timeline: int = Field(alias="timeline")
    training_run_id: uuid.UUID = Field(alias="training_run_id")
    updated_at: datetime.datetime = Field(alias="updated_at")

class PublicModelCheckpointsInsert(TypedDict):
    checkpoint_number: Annotated[int, Field(alias="checkpoint_number")]
    checksum: NotRequired[Annotated[Optional[str], Field(alias="checksum")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    metrics: NotRequired[Annotated[JsonValue, Field(alias="metrics")]]
    rewound_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="rewound_at")]]
    size_bytes: NotRequired[Annotated[Optional[int], Field(alias="size_bytes")]]
    step: NotRequired[Annotated[Optional[int], Field(alias="step")]]
    storage_path: NotRequired[Annotated[Optional[str], Field(alias="storage_path")]]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    training_run_id: Annotated[uuid.UUID, Field(alias="training_run_id")]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicModelCheckpointsUpdate(TypedDict):
    checkpoint_number: NotRequired[Annotated[int, Field(alias="checkpoint_number")]]
    checksum: NotRequired[Annotated[Optional[str], Field(alias="checksum")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    metrics: NotRequired[Annotated[JsonValue, Field(alias="metrics")]]
    rewound_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="rewound_at")]]
    size_bytes: NotRequired[Annotated[Optional[int], Field(alias="size_bytes")]]
    step: NotRequired[Annotated[Optional[int], Field(alias="step")]]
    storage_path: NotRequired[Annotated[Optional[str], Field(alias="storage_path")]]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    training_run_id: NotRequired[Annotated[uuid.UUID, Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicObservations(BaseModel):
    agent_state_id: uuid.UUID = Field(alias="agent_state_id")
    id: uuid.UUID = Field(alias="id")
    kind: str = Field(alias="kind")
    media_path: Optional[str] = Field(alias="media_path")
    position: int = Field(alias="position")
    text: Optional[str] = Field(alias="text")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")

class PublicObservationsInsert(TypedDict):
    agent_state_id: Annotated[uuid.UUID, Field(alias="agent_state_id")]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kind: Annotated[str, Field(alias="kind")]
    media_path: NotRequired[Annotated[Optional[str], Field(alias="media_path")]]
    position: NotRequired[Annotated[int, Field(alias="position")]]
    text: NotRequired[Annotated[Optional[str], Field(alias="text")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicObservationsUpdate(TypedDict):
    agent_state_id: NotRequired[Annotated[uuid.UUID, Field(alias="agent_state_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kind: NotRequired[Annotated[str, Field(alias="kind")]]
    media_path: NotRequired[Annotated[Optional[str], Field(alias="media_path")]]
    position: NotRequired[Annotated[int, Field(alias="position")]]
    text: NotRequired[Annotated[Optional[str], Field(alias="text")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicRewards(BaseModel):
    created_at: datetime.datetime = Field(alias="created_at")
    details: Optional[JsonValue] = Field(alias="details")
    id: uuid.UUID = Field(alias="id")
    reward: float = Field(alias="reward")
    reward_type: str = Field(alias="reward_type")
    rollout_id: uuid.UUID = Field(alias="rollout_id")
    step_number: Optional[int] = Field(alias="step_number")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")

class PublicRewardsInsert(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    details: NotRequired[Annotated[Optional[JsonValue], Field(alias="details")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    reward: Annotated[float, Field(alias="reward")]
    reward_type: NotRequired[Annotated[str, Field(alias="reward_type")]]
    rollout_id: Annotated[uuid.UUID, Field(alias="rollout_id")]
    step_number: NotRequired[Annotated[Optional[int], Field(alias="step_number")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicRewardsUpdate(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    details: NotRequired[Annotated[Optional[JsonValue], Field(alias="details")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    reward: NotRequired[Annotated[float, Field(alias="reward")]]
    reward_type: NotRequired[Annotated[str, Field(alias="reward_type")]]
    rollout_id: NotRequired[Annotated[uuid.UUID, Field(alias="rollout_id")]]
    step_number: NotRequired[Annotated[Optional[int], Field(alias="step_number")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicRewinds(BaseModel):
    created_at: datetime.datetime = Field(alias="created_at")
    cut_at: datetime.datetime = Field(alias="cut_at")
    id: uuid.UUID = Field(alias="id")
    timeline: int = Field(alias="timeline")
    to_step: int = Field(alias="to_step")
    training_run_id: uuid.UUID = Field(alias="training_run_id")

class PublicRewindsInsert(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    cut_at: Annotated[datetime.datetime, Field(alias="cut_at")]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    timeline: Annotated[int, Field(alias="timeline")]
    to_step: Annotated[int, Field(alias="to_step")]
    training_run_id: Annotated[uuid.UUID, Field(alias="training_run_id")]

class PublicRewindsUpdate(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    cut_at: NotRequired[Annotated[datetime.datetime, Field(alias="cut_at")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    to_step: NotRequired[Annotated[int, Field(alias="to_step")]]
    training_run_id: NotRequired[Annotated[uuid.UUID, Field(alias="training_run_id")]]

class PublicRolloutGroups(BaseModel):
    completed_count: int = Field(alias="completed_count")
    created_at: datetime.datetime = Field(alias="created_at")
    evaluation_id: Optional[uuid.UUID] = Field(alias="evaluation_id")
    id: uuid.UUID = Field(alias="id")
    metadata: JsonValue = Field(alias="metadata")
    number: int = Field(alias="number")
    reward_count: int = Field(alias="reward_count")
    reward_mean: Optional[float] = Field(alias="reward_mean")
    reward_squares: float = Field(alias="reward_squares")
    reward_std: Optional[float] = Field(alias="reward_std")
    reward_sum: float = Field(alias="reward_sum")
    rollout_count: int = Field(alias="rollout_count")
    success_count: int = Field(alias="success_count")
    task_description: Optional[str] = Field(alias="task_description")
    task_id: Optional[uuid.UUID] = Field(alias="task_id")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")
    training_step_id: Optional[uuid.UUID] = Field(alias="training_step_id")
    updated_at: datetime.datetime = Field(alias="updated_at")

class PublicRolloutGroupsInsert(TypedDict):
    completed_count: NotRequired[Annotated[int, Field(alias="completed_count")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    evaluation_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="evaluation_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    number: Annotated[int, Field(alias="number")]
    reward_count: NotRequired[Annotated[int, Field(alias="reward_count")]]
    reward_mean: NotRequired[Annotated[Optional[float], Field(alias="reward_mean")]]
    reward_squares: NotRequired[Annotated[float, Field(alias="reward_squares")]]
    reward_std: NotRequired[Annotated[Optional[float], Field(alias="reward_std")]]
    reward_sum: NotRequired[Annotated[float, Field(alias="reward_sum")]]
    rollout_count: NotRequired[Annotated[int, Field(alias="rollout_count")]]
    success_count: NotRequired[Annotated[int, Field(alias="success_count")]]
    task_description: NotRequired[Annotated[Optional[str], Field(alias="task_description")]]
    task_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="task_id")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    training_step_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_step_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicRolloutGroupsUpdate(TypedDict):
    completed_count: NotRequired[Annotated[int, Field(alias="completed_count")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    evaluation_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="evaluation_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    number: NotRequired[Annotated[int, Field(alias="number")]]
    reward_count: NotRequired[Annotated[int, Field(alias="reward_count")]]
    reward_mean: NotRequired[Annotated[Optional[float], Field(alias="reward_mean")]]
    reward_squares: NotRequired[Annotated[float, Field(alias="reward_squares")]]
    reward_std: NotRequired[Annotated[Optional[float], Field(alias="reward_std")]]
    reward_sum: NotRequired[Annotated[float, Field(alias="reward_sum")]]
    rollout_count: NotRequired[Annotated[int, Field(alias="rollout_count")]]
    success_count: NotRequired[Annotated[int, Field(alias="success_count")]]
    task_description: NotRequired[Annotated[Optional[str], Field(alias="task_description")]]
    task_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="task_id")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    training_step_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_step_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicRolloutStats(BaseModel):
    completed_count: int = Field(alias="completed_count")
    environment: str = Field(alias="environment")
    id: int = Field(alias="id")
    reward_count: int = Field(alias="reward_count")
    reward_sum: float = Field(alias="reward_sum")
    rollout_count: int = Field(alias="rollout_count")
    shard: int = Field(alias="shard")
    step_count: int = Field(alias="step_count")
    step_sum: int = Field(alias="step_sum")
    success_count: int = Field(alias="success_count")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")

class PublicRolloutStatsInsert(TypedDict):
    completed_count: NotRequired[Annotated[int, Field(alias="completed_count")]]
    environment: Annotated[str, Field(alias="environment")]
    id: NotRequired[Annotated[int, Field(alias="id")]]
    reward_count: NotRequired[Annotated[int, Field(alias="reward_count")]]
    reward_sum: NotRequired[Annotated[float, Field(alias="reward_sum")]]
    rollout_count: NotRequired[Annotated[int, Field(alias="rollout_count")]]
    shard: Annotated[int, Field(alias="shard")]
    step_count: NotRequired[Annotated[int, Field(alias="step_count")]]
    step_sum: NotRequired[Annotated[int, Field(alias="step_sum")]]
    success_count: NotRequired[Annotated[int, Field(alias="success_count")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicRolloutStatsUpdate(TypedDict):
    completed_count: NotRequired[Annotated[int, Field(alias="completed_count")]]
    environment: NotRequired[Annotated[str, Field(alias="environment")]]
    id: NotRequired[Annotated[int, Field(alias="id")]]
    reward_count: NotRequired[Annotated[int, Field(alias="reward_count")]]
    reward_sum: NotRequired[Annotated[float, Field(alias="reward_sum")]]
    rollout_count: NotRequired[Annotated[int, Field(alias="rollout_count")]]
    shard: NotRequired[Annotated[int, Field(alias="shard")]]
    step_count: NotRequired[Annotated[int, Field(alias="step_count")]]
    step_sum: NotRequired[Annotated[int, Field(alias="step_sum")]]
    success_count: NotRequired[Annotated[int, Field(alias="success_count")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicRollouts(BaseModel):
    attempt: int = Field(alias="attempt")
    created_at: datetime.datetime = Field(alias="created_at")
    environment: str = Field(alias="environment")
    episode_number: Optional[int] = Field(alias="episode_number")
    error: Optional[str] = Field(alias="error")
    finished_at: Optional[datetime.datetime] = Field(alias="finished_at")
    group_id: Optional[uuid.UUID] = Field(alias="group_id")
    id: uuid.UUID = Field(alias="id")
    lease_expires_at: Optional[datetime.datetime] = Field(alias="lease_expires_at")
    metadata: JsonValue = Field(alias="metadata")
    model: Optional[str] = Field(alias="model")
    owner_id: Optional[uuid.UUID] = Field(alias="owner_id")
    policy_version: Optional[int] = Field(alias="policy_version")
    result: Optional[JsonValue] = Field(alias="result")
    rewound_at: Optional[datetime.datetime] = Field(alias="rewound_at")
    seed: Optional[int] = Field(alias="seed")
    source: str = Field(alias="source")
    started_at: Optional[datetime.datetime] = Field(alias="started_at")
    status: str = Field(alias="status")
    status_change_id: Optional[uuid.UUID] = Field(alias="status_change_id")
    status_message: Optional[str] = Field(alias="status_message")
    step: Optional[int] = Field(alias="step")
    step_count: Optional[int] = Field(alias="step_count")
    task_description: Optional[str] = Field(alias="task_description")
    task_id: Optional[uuid.UUID] = Field(alias="task_id")
    timeline: int = Field(alias="timeline")
    total_reward: Optional[float] = Field(alias="total_reward")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")
    updated_at: datetime.datetime = Field(alias="updated_at")
    video_path: Optional[str] = Field(alias="video_path")
    worker_id: Optional[str] = Field(alias="worker_id")

class PublicRolloutsInsert(TypedDict):
    attempt: NotRequired[Annotated[int, Field(alias="attempt")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    environment: Annotated[str, Field(alias="environment")]
    episode_number: NotRequired[Annotated[Optional[int], Field(alias="episode_number")]]
    error: NotRequired[Annotated[Optional[str], Field(alias="error")]]
    finished_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="finished_at")]]
    group_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="group_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    lease_expires_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="lease_expires_at")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    model: NotRequired[Annotated[Optional[str], Field(alias="model")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    policy_version: NotRequired[Annotated[Optional[int], Field(alias="policy_version")]]
    result: NotRequired[Annotated[Optional[JsonValue], Field(alias="result")]]
    rewound_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="rewound_at")]]
    seed: NotRequired[Annotated[Optional[int], Field(alias="seed")]]
    source: NotRequired[Annotated[str, Field(alias="source")]]
    started_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="started_at")]]
    status: NotRequired[Annotated[str, Field(alias="status")]]
    status_change_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="status_change_id")]]
    status_message: NotRequired[Annotated[Optional[str], Field(alias="status_message")]]
    step: NotRequired[Annotated[Optional[int], Field(alias="step")]]
    step_count: NotRequired[Annotated[Optional[int], Field(alias="step_count")]]
    task_description: NotRequired[Annotated[Optional[str], Field(alias="task_description")]]
    task_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="task_id")]]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    total_reward: NotRequired[Annotated[Optional[float], Field(alias="total_reward")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]
    video_path: NotRequired[Annotated[Optional[str], Field(alias="video_path")]]
    worker_id: NotRequired[Annotated[Optional[str], Field(alias="worker_id")]]

class PublicRolloutsUpdate(TypedDict):
    attempt: NotRequired[Annotated[int, Field(alias="attempt")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    environment: NotRequired[Annotated[str, Field(alias="environment")]]
    episode_number: NotRequired[Annotated[Optional[int], Field(alias="episode_number")]]
    error: NotRequired[Annotated[Optional[str], Field(alias="error")]]
    finished_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="finished_at")]]
    group_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="group_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    lease_expires_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="lease_expires_at")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    model: NotRequired[Annotated[Optional[str], Field(alias="model")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    policy_version: NotRequired[Annotated[Optional[int], Field(alias="policy_version")]]
    result: NotRequired[Annotated[Optional[JsonValue], Field(alias="result")]]
    rewound_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="rewound_at")]]
    seed: NotRequired[Annotated[Optional[int], Field(alias="seed")]]
    source: NotRequired[Annotated[str, Field(alias="source")]]
    started_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="started_at")]]
    status: NotRequired[Annotated[str, Field(alias="status")]]
    status_change_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="status_change_id")]]
    status_message: NotRequired[Annotated[Optional[str], Field(alias="status_message")]]
    step: NotRequired[Annotated[Optional[int], Field(alias="step")]]
    step_count: NotRequired[Annotated[Optional[int], Field(alias="step_count")]]
    task_description: NotRequired[Annotated[Optional[str], Field(alias="task_description")]]
    task_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="task_id")]]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    total_reward: NotRequired[Annotated[Optional[float], Field(alias="total_reward")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]
    video_path: NotRequired[Annotated[Optional[str], Field(alias="video_path")]]
    worker_id: NotRequired[Annotated[Optional[str], Field(alias="worker_id")]]

class PublicStatusHistory(BaseModel):
    changed_at: datetime.datetime = Field(alias="changed_at")
    changed_by: Optional[uuid.UUID] = Field(alias="changed_by")
    entity: str = Field(alias="entity")
    entity_id: uuid.UUID = Field(alias="entity_id")
    id: uuid.UUID = Field(alias="id")
    message: Optional[str] = Field(alias="message")
    new_status: str = Field(alias="new_status")
    old_status: Optional[str] = Field(alias="old_status")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")

class PublicStatusHistoryInsert(TypedDict):
    changed_at: NotRequired[Annotated[datetime.datetime, Field(alias="changed_at")]]
    changed_by: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="changed_by")]]
    entity: Annotated[str, Field(alias="entity")]
    entity_id: Annotated[uuid.UUID, Field(alias="entity_id")]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    message: NotRequired[Annotated[Optional[str], Field(alias="message")]]
    new_status: Annotated[str, Field(alias="new_status")]
    old_status: NotRequired[Annotated[Optional[str], Field(alias="old_status")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicStatusHistoryUpdate(TypedDict):
    changed_at: NotRequired[Annotated[datetime.datetime, Field(alias="changed_at")]]
    changed_by: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="changed_by")]]
    entity: NotRequired[Annotated[str, Field(alias="entity")]]
    entity_id: NotRequired[Annotated[uuid.UUID, Field(alias="entity_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    message: NotRequired[Annotated[Optional[str], Field(alias="message")]]
    new_status: NotRequired[Annotated[str, Field(alias="new_status")]]
    old_status: NotRequired[Annotated[Optional[str], Field(alias="old_status")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicTasks(BaseModel):
    created_at: datetime.datetime = Field(alias="created_at")
    description: str = Field(alias="description")
    environment: Optional[str] = Field(alias="environment")
    expected_answer: Optional[str] = Field(alias="expected_answer")
    external_id: Optional[str] = Field(alias="external_id")
    id: uuid.UUID = Field(alias="id")
    metadata: JsonValue = Field(alias="metadata")
    name: Optional[str] = Field(alias="name")
    owner_id: Optional[uuid.UUID] = Field(alias="owner_id")
    split: Optional[str] = Field(alias="split")
    updated_at: datetime.datetime = Field(alias="updated_at")

class PublicTasksInsert(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    description: Annotated[str, Field(alias="description")]
    environment: NotRequired[Annotated[Optional[str], Field(alias="environment")]]
    expected_answer: NotRequired[Annotated[Optional[str], Field(alias="expected_answer")]]
    external_id: NotRequired[Annotated[Optional[str], Field(alias="external_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    name: NotRequired[Annotated[Optional[str], Field(alias="name")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    split: NotRequired[Annotated[Optional[str], Field(alias="split")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicTasksUpdate(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    description: NotRequired[Annotated[str, Field(alias="description")]]
    environment: NotRequired[Annotated[Optional[str], Field(alias="environment")]]
    expected_answer: NotRequired[Annotated[Optional[str], Field(alias="expected_answer")]]
    external_id: NotRequired[Annotated[Optional[str], Field(alias="external_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    name: NotRequired[Annotated[Optional[str], Field(alias="name")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    split: NotRequired[Annotated[Optional[str], Field(alias="split")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicToolCalls(BaseModel):
    agent_state_id: uuid.UUID = Field(alias="agent_state_id")
    created_at: datetime.datetime = Field(alias="created_at")
    error_message: Optional[str] = Field(alias="error_message")
    execution_time_ms: Optional[float] = Field(alias="execution_time_ms")
    id: uuid.UUID = Field(alias="id")
    position: int = Field(alias="position")
    success: Optional[bool] = Field(alias="success")
    tool_input: Optional[JsonValue] = Field(alias="tool_input")
    tool_name: str = Field(alias="tool_name")
    tool_output: Optional[str] = Field(alias="tool_output")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")

class PublicToolCallsInsert(TypedDict):
    agent_state_id: Annotated[uuid.UUID, Field(alias="agent_state_id")]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    error_message: NotRequired[Annotated[Optional[str], Field(alias="error_message")]]
    execution_time_ms: NotRequired[Annotated[Optional[float], Field(alias="execution_time_ms")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    position: NotRequired[Annotated[int, Field(alias="position")]]
    success: NotRequired[Annotated[Optional[bool], Field(alias="success")]]
    tool_input: NotRequired[Annotated[Optional[JsonValue], Field(alias="tool_input")]]
    tool_name: Annotated[str, Field(alias="tool_name")]
    tool_output: NotRequired[Annotated[Optional[str], Field(alias="tool_output")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicToolCallsUpdate(TypedDict):
    agent_state_id: NotRequired[Annotated[uuid.UUID, Field(alias="agent_state_id")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    error_message: NotRequired[Annotated[Optional[str], Field(alias="error_message")]]
    execution_time_ms: NotRequired[Annotated[Optional[float], Field(alias="execution_time_ms")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    position: NotRequired[Annotated[int, Field(alias="position")]]
    success: NotRequired[Annotated[Optional[bool], Field(alias="success")]]
    tool_input: NotRequired[Annotated[Optional[JsonValue], Field(alias="tool_input")]]
    tool_name: NotRequired[Annotated[str, Field(alias="tool_name")]]
    tool_output: NotRequired[Annotated[Optional[str], Field(alias="tool_output")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]

class PublicTrainingRuns(BaseModel):
    algorithm: Optional[str] = Field(alias="algorithm")
    baseline_id: Optional[uuid.UUID] = Field(alias="baseline_id")
    config: JsonValue = Field(alias="config")
    created_at: datetime.datetime = Field(alias="created_at")
    current_step: Optional[int] = Field(alias="current_step")
    description: Optional[str] = Field(alias="description")
    environment: Optional[str] = Field(alias="environment")
    finished_at: Optional[datetime.datetime] = Field(alias="finished_at")
    heartbeat_at: Optional[datetime.datetime] = Field(alias="heartbeat_at")
    heartbeat_timeout_seconds: int = Field(alias="heartbeat_timeout_seconds")
    id: uuid.UUID = Field(alias="id")
    metadata: JsonValue = Field(alias="metadata")
    name: str = Field(alias="name")
    owner_id: Optional[uuid.UUID] = Field(alias="owner_id")
    progress: Optional[float] = Field(alias="progress")
    rewinds: Optional[List[int]] = Field(alias="rewinds")
    run_name: Optional[str] = Field(alias="run_name")
    started_at: Optional[datetime.datetime] = Field(alias="started_at")
    status: str = Field(alias="status")
    status_change_id: Optional[uuid.UUID] = Field(alias="status_change_id")
    status_message: Optional[str] = Field(alias="status_message")
    summary: JsonValue = Field(alias="summary")
    tags: List[str] = Field(alias="tags")
    timeline: int = Field(alias="timeline")
    total_steps: Optional[int] = Field(alias="total_steps")
    updated_at: datetime.datetime = Field(alias="updated_at")
    visibility: str = Field(alias="visibility")

class PublicTrainingRunsInsert(TypedDict):
    algorithm: NotRequired[Annotated[Optional[str], Field(alias="algorithm")]]
    baseline_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="baseline_id")]]
    config: NotRequired[Annotated[JsonValue, Field(alias="config")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    current_step: NotRequired[Annotated[Optional[int], Field(alias="current_step")]]
    description: NotRequired[Annotated[Optional[str], Field(alias="description")]]
    environment: NotRequired[Annotated[Optional[str], Field(alias="environment")]]
    finished_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="finished_at")]]
    heartbeat_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="heartbeat_at")]]
    heartbeat_timeout_seconds: NotRequired[Annotated[int, Field(alias="heartbeat_timeout_seconds")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    name: Annotated[str, Field(alias="name")]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    progress: NotRequired[Annotated[Optional[float], Field(alias="progress")]]
    rewinds: NotRequired[Annotated[Optional[List[int]], Field(alias="rewinds")]]
    run_name: NotRequired[Annotated[Optional[str], Field(alias="run_name")]]
    started_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="started_at")]]
    status: NotRequired[Annotated[str, Field(alias="status")]]
    status_change_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="status_change_id")]]
    status_message: NotRequired[Annotated[Optional[str], Field(alias="status_message")]]
    summary: NotRequired[Annotated[JsonValue, Field(alias="summary")]]
    tags: NotRequired[Annotated[List[str], Field(alias="tags")]]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    total_steps: NotRequired[Annotated[Optional[int], Field(alias="total_steps")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]
    visibility: NotRequired[Annotated[str, Field(alias="visibility")]]

class PublicTrainingRunsUpdate(TypedDict):
    algorithm: NotRequired[Annotated[Optional[str], Field(alias="algorithm")]]
    baseline_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="baseline_id")]]
    config: NotRequired[Annotated[JsonValue, Field(alias="config")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    current_step: NotRequired[Annotated[Optional[int], Field(alias="current_step")]]
    description: NotRequired[Annotated[Optional[str], Field(alias="description")]]
    environment: NotRequired[Annotated[Optional[str], Field(alias="environment")]]
    finished_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="finished_at")]]
    heartbeat_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="heartbeat_at")]]
    heartbeat_timeout_seconds: NotRequired[Annotated[int, Field(alias="heartbeat_timeout_seconds")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    metadata: NotRequired[Annotated[JsonValue, Field(alias="metadata")]]
    name: NotRequired[Annotated[str, Field(alias="name")]]
    owner_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="owner_id")]]
    progress: NotRequired[Annotated[Optional[float], Field(alias="progress")]]
    rewinds: NotRequired[Annotated[Optional[List[int]], Field(alias="rewinds")]]
    run_name: NotRequired[Annotated[Optional[str], Field(alias="run_name")]]
    started_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="started_at")]]
    status: NotRequired[Annotated[str, Field(alias="status")]]
    status_change_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="status_change_id")]]
    status_message: NotRequired[Annotated[Optional[str], Field(alias="status_message")]]
    summary: NotRequired[Annotated[JsonValue, Field(alias="summary")]]
    tags: NotRequired[Annotated[List[str], Field(alias="tags")]]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    total_steps: NotRequired[Annotated[Optional[int], Field(alias="total_steps")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]
    visibility: NotRequired[Annotated[str, Field(alias="visibility")]]

class PublicTrainingSteps(BaseModel):
    created_at: datetime.datetime = Field(alias="created_at")
    finished_at: Optional[datetime.datetime] = Field(alias="finished_at")
    grad_norm: Optional[float] = Field(alias="grad_norm")
    id: uuid.UUID = Field(alias="id")
    kl: Optional[float] = Field(alias="kl")
    loss: Optional[float] = Field(alias="loss")
    metrics: JsonValue = Field(alias="metrics")
    phase: Optional[str] = Field(alias="phase")
    reward_mean: Optional[float] = Field(alias="reward_mean")
    reward_std: Optional[float] = Field(alias="reward_std")
    rewound_at: Optional[datetime.datetime] = Field(alias="rewound_at")
    rollout_progress: Optional[float] = Field(alias="rollout_progress")
    started_at: Optional[datetime.datetime] = Field(alias="started_at")
    status: str = Field(alias="status")
    status_change_id: Optional[uuid.UUID] = Field(alias="status_change_id")
    status_message: Optional[str] = Field(alias="status_message")
    step: int = Field(alias="step")
    timeline: int = Field(alias="timeline")
    tokens: Optional[int] = Field(alias="tokens")
    training_progress: Optional[float] = Field(alias="training_progress")
    training_run_id: uuid.UUID = Field(alias="training_run_id")
    updated_at: datetime.datetime = Field(alias="updated_at")

class PublicTrainingStepsInsert(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    finished_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="finished_at")]]
    grad_norm: NotRequired[Annotated[Optional[float], Field(alias="grad_norm")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kl: NotRequired[Annotated[Optional[float], Field(alias="kl")]]
    loss: NotRequired[Annotated[Optional[float], Field(alias="loss")]]
    metrics: NotRequired[Annotated[JsonValue, Field(alias="metrics")]]
    phase: NotRequired[Annotated[Optional[str], Field(alias="phase")]]
    reward_mean: NotRequired[Annotated[Optional[float], Field(alias="reward_mean")]]
    reward_std: NotRequired[Annotated[Optional[float], Field(alias="reward_std")]]
    rewound_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="rewound_at")]]
    rollout_progress: NotRequired[Annotated[Optional[float], Field(alias="rollout_progress")]]
    started_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="started_at")]]
    status: NotRequired[Annotated[str, Field(alias="status")]]
    status_change_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="status_change_id")]]
    status_message: NotRequired[Annotated[Optional[str], Field(alias="status_message")]]
    step: Annotated[int, Field(alias="step")]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    tokens: NotRequired[Annotated[Optional[int], Field(alias="tokens")]]
    training_progress: NotRequired[Annotated[Optional[float], Field(alias="training_progress")]]
    training_run_id: Annotated[uuid.UUID, Field(alias="training_run_id")]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicTrainingStepsUpdate(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    finished_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="finished_at")]]
    grad_norm: NotRequired[Annotated[Optional[float], Field(alias="grad_norm")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kl: NotRequired[Annotated[Optional[float], Field(alias="kl")]]
    loss: NotRequired[Annotated[Optional[float], Field(alias="loss")]]
    metrics: NotRequired[Annotated[JsonValue, Field(alias="metrics")]]
    phase: NotRequired[Annotated[Optional[str], Field(alias="phase")]]
    reward_mean: NotRequired[Annotated[Optional[float], Field(alias="reward_mean")]]
    reward_std: NotRequired[Annotated[Optional[float], Field(alias="reward_std")]]
    rewound_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="rewound_at")]]
    rollout_progress: NotRequired[Annotated[Optional[float], Field(alias="rollout_progress")]]
    started_at: NotRequired[Annotated[Optional[datetime.datetime], Field(alias="started_at")]]
    status: NotRequired[Annotated[str, Field(alias="status")]]
    status_change_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="status_change_id")]]
    status_message: NotRequired[Annotated[Optional[str], Field(alias="status_message")]]
    step: NotRequired[Annotated[int, Field(alias="step")]]
    timeline: NotRequired[Annotated[int, Field(alias="timeline")]]
    tokens: NotRequired[Annotated[Optional[int], Field(alias="tokens")]]
    training_progress: NotRequired[Annotated[Optional[float], Field(alias="training_progress")]]
    training_run_id: NotRequired[Annotated[uuid.UUID, Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicValidationOverrides(BaseModel):
    created_at: datetime.datetime = Field(alias="created_at")
    id: uuid.UUID = Field(alias="id")
    made_by: Optional[uuid.UUID] = Field(alias="made_by")
    made_by_name: Optional[str] = Field(alias="made_by_name")
    new_status: str = Field(alias="new_status")
    old_status: str = Field(alias="old_status")
    reason: str = Field(alias="reason")
    rollout_id: uuid.UUID = Field(alias="rollout_id")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")
    validation_id: Optional[uuid.UUID] = Field(alias="validation_id")
    verdict: Optional[str] = Field(alias="verdict")

class PublicValidationOverridesInsert(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    made_by: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="made_by")]]
    made_by_name: NotRequired[Annotated[Optional[str], Field(alias="made_by_name")]]
    new_status: Annotated[str, Field(alias="new_status")]
    old_status: Annotated[str, Field(alias="old_status")]
    reason: Annotated[str, Field(alias="reason")]
    rollout_id: Annotated[uuid.UUID, Field(alias="rollout_id")]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    validation_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="validation_id")]]
    verdict: NotRequired[Annotated[Optional[str], Field(alias="verdict")]]

class PublicValidationOverridesUpdate(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    made_by: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="made_by")]]
    made_by_name: NotRequired[Annotated[Optional[str], Field(alias="made_by_name")]]
    new_status: NotRequired[Annotated[str, Field(alias="new_status")]]
    old_status: NotRequired[Annotated[str, Field(alias="old_status")]]
    reason: NotRequired[Annotated[str, Field(alias="reason")]]
    rollout_id: NotRequired[Annotated[uuid.UUID, Field(alias="rollout_id")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    validation_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="validation_id")]]
    verdict: NotRequired[Annotated[Optional[str], Field(alias="verdict")]]

class PublicValidations(BaseModel):
    actual: Optional[str] = Field(alias="actual")
    created_at: datetime.datetime = Field(alias="created_at")
    details: Optional[JsonValue] = Field(alias="details")
    expected: Optional[str] = Field(alias="expected")
    id: uuid.UUID = Field(alias="id")
    message: Optional[str] = Field(alias="message")
    rollout_id: uuid.UUID = Field(alias="rollout_id")
    score: Optional[float] = Field(alias="score")
    training_run_id: Optional[uuid.UUID] = Field(alias="training_run_id")
    updated_at: datetime.datetime = Field(alias="updated_at")
    validator_id: Optional[uuid.UUID] = Field(alias="validator_id")
    validator_name: str = Field(alias="validator_name")
    verdict: str = Field(alias="verdict")

class PublicValidationsInsert(TypedDict):
    actual: NotRequired[Annotated[Optional[str], Field(alias="actual")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    details: NotRequired[Annotated[Optional[JsonValue], Field(alias="details")]]
    expected: NotRequired[Annotated[Optional[str], Field(alias="expected")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    message: NotRequired[Annotated[Optional[str], Field(alias="message")]]
    rollout_id: Annotated[uuid.UUID, Field(alias="rollout_id")]
    score: NotRequired[Annotated[Optional[float], Field(alias="score")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]
    validator_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="validator_id")]]
    validator_name: NotRequired[Annotated[str, Field(alias="validator_name")]]
    verdict: Annotated[str, Field(alias="verdict")]

class PublicValidationsUpdate(TypedDict):
    actual: NotRequired[Annotated[Optional[str], Field(alias="actual")]]
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    details: NotRequired[Annotated[Optional[JsonValue], Field(alias="details")]]
    expected: NotRequired[Annotated[Optional[str], Field(alias="expected")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    message: NotRequired[Annotated[Optional[str], Field(alias="message")]]
    rollout_id: NotRequired[Annotated[uuid.UUID, Field(alias="rollout_id")]]
    score: NotRequired[Annotated[Optional[float], Field(alias="score")]]
    training_run_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="training_run_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]
    validator_id: NotRequired[Annotated[Optional[uuid.UUID], Field(alias="validator_id")]]
    validator_name: NotRequired[Annotated[str, Field(alias="validator_name")]]
    verdict: NotRequired[Annotated[str, Field(alias="verdict")]]

class PublicValidators(BaseModel):
    created_at: datetime.datetime = Field(alias="created_at")
    external_id: str = Field(alias="external_id")
    id: uuid.UUID = Field(alias="id")
    kind: str = Field(alias="kind")
    spec: JsonValue = Field(alias="spec")
    task_id: uuid.UUID = Field(alias="task_id")
    updated_at: datetime.datetime = Field(alias="updated_at")

class PublicValidatorsInsert(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    external_id: NotRequired[Annotated[str, Field(alias="external_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kind: Annotated[str, Field(alias="kind")]
    spec: NotRequired[Annotated[JsonValue, Field(alias="spec")]]
    task_id: Annotated[uuid.UUID, Field(alias="task_id")]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicValidatorsUpdate(TypedDict):
    created_at: NotRequired[Annotated[datetime.datetime, Field(alias="created_at")]]
    external_id: NotRequired[Annotated[str, Field(alias="external_id")]]
    id: NotRequired[Annotated[uuid.UUID, Field(alias="id")]]
    kind: NotRequired[Annotated[str, Field(alias="kind")]]
    spec: NotRequired[Annotated[JsonValue, Field(alias="spec")]]
    task_id: NotRequired[Annotated[uuid.UUID, Field(alias="task_id")]]
    updated_at: NotRequired[Annotated[datetime.datetime, Field(alias="updated_at")]]

class PublicMetrics(BaseModel):
    chunk_id: uuid.UUID = Field(alias="chunk_id")
    name: str = Field(alias="name")
    recorded_at: Optional[datetime.datetime] = Field(alias="recorded_at")
    step: Optional[int] = Field(alias="step")
    training_run_id: uuid.UUID = Field(alias="training_run_id")
    value: Optional[float] = Field(alias="value")

class PublicRunList(BaseModel):
    algorithm: Optional[str] = Field(alias="algorithm")
    average_reward: Optional[float] = Field(alias="average_reward")
    average_turns: Optional[float] = Field(alias="average_turns")
    baseline_id: Optional[uuid.UUID] = Field(alias="baseline_id")
    completed_count: Optional[int] = Field(alias="completed_count")
    created_at: datetime.datetime = Field(alias="created_at")
    current_step: Optional[int] = Field(alias="current_step")
    description: Optional[str] = Field(alias="description")
    environment: Optional[str] = Field(alias="environment")
    finished_at: Optional[datetime.datetime] = Field(alias="finished_at")
    heartbeat_at: Optional[datetime.datetime] = Field(alias="heartbeat_at")
    heartbeat_timeout_seconds: int = Field(alias="heartbeat_timeout_seconds")
    id: uuid.UUID = Field(alias="id")
    name: str = Field(alias="name")
    owner_id: Optional[uuid.UUID] = Field(alias="owner_id")
    owner_name: Optional[str] = Field(alias="owner_name")
    progress: Optional[float] = Field(alias="progress")
    rollout_count: Optional[int] = Field(alias="rollout_count")
    run_name: Optional[str] = Field(alias="run_name")
    search_text: Optional[str] = Field(alias="search_text")
    shown_status: Optional[str] = Field(alias="shown_status")
    started_at: Optional[datetime.datetime] = Field(alias="started_at")
    status: str = Field(alias="status")
    status_message: Optional[str] = Field(alias="status_message")
    steps_done: Optional[int] = Field(alias="steps_done")
    success_count: Optional[int] = Field(alias="success_count")
    success_rate: Optional[float] = Field(alias="success_rate")
    tags: List[str] = Field(alias="tags")
    timeline: int = Field(alias="timeline")
    total_steps: Optional[int] = Field(alias="total_steps")
    updated_at: datetime.datetime = Field(alias="updated_at")
    visibility: str = Field(alias="visibility")

class PublicRunOverview(BaseModel):
    algorithm: Optional[str] = Field(alias="algorithm")
    baseline_id: Optional[uuid.UUID] = Field(alias="baseline_id")
    config: JsonValue = Field(alias="config")
    created_at: datetime.datetime = Field(alias="created_at")
    current_step: Optional[int] = Field(alias="current_step")
    description: Optional[str] = Field(alias="description")
    environment: Optional[str] = Field(alias="environment")
    finished_at: Optional[datetime.datetime] = Field(alias="finished_at")
    heartbeat_at: Optional[datetime.datetime] = Field(alias="heartbeat_at")
    heartbeat_timeout_seconds: int = Field(alias="heartbeat_timeout_seconds")
    id: uuid.UUID = Field(alias="id")
    metadata: JsonValue = Field(alias="metadata")
    name: str = Field(alias="name")
    owner_id: Optional[uuid.UUID] = Field(alias="owner_id")
    progress: Optional[float] = Field(alias="progress")
    rewinds: Optional[List[int]] = Field(alias="rewinds")
    run_name: Optional[str] = Field(alias="run_name")
    shown_status: Optional[str] = Field(alias="shown_status")
    started_at: Optional[datetime.datetime] = Field(alias="started_at")
    status: str = Field(alias="status")
    status_change_id: Optional[uuid.UUID] = Field(alias="status_change_id")
    status_message: Optional[str] = Field(alias="status_message")
    steps_done: Optional[int] = Field(alias="steps_done")
    summary: JsonValue = Field(alias="summary")
    tags: List[str] = Field(alias="tags")
    timeline: int = Field(alias="timeline")
    total_steps: Optional[int] = Field(alias="total_steps")
    updated_at: datetime.datetime = Field(alias="updated_at")
    visibility: str = Field(alias="visibility")
