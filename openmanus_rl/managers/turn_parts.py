"""Further observations of a turn, and the tokens that were generated in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from openmanus_rl.managers.base import Manager, OneOrMany, Paging, matching, of_ids
from openmanus_rl.records.ids import Id, as_id
from openmanus_rl.records.rows import Generation, Observation
from openmanus_rl.transport.filters import Page

__all__ = ["GenerationManager", "ObservationManager"]


class ObservationManager(Manager[Observation]):
    """Records and reads further observations of a turn: screenshots, pages, accessibility trees."""

    table = "observations"
    noun = "observation"
    order_by = ("agent_state_id", "position")

    @classmethod
    def log_observation(
        cls,
        agent_state_id: Id,
        kind: str,
        *,
        text: str | None = None,
        media_path: str | None = None,
        position: int | None = None,
    ) -> Observation:
        """Record an observation and return it; its position defaults to the last of the turn."""
        turn = as_id(agent_state_id, field="agent_state_id")
        return cls._append(None, agent_state_id=turn, position=position, kind=kind, text=text, media_path=media_path)

    @classmethod
    def get_observation(cls, observation: Id) -> Observation:
        """Return an observation; an unknown id raises `NotFoundError`."""
        return cls._get(observation, field="observation_id")

    @classmethod
    def list_observations(
        cls,
        *,
        agent_state_id: Id | Sequence[Id] | None = None,
        training_run_id: Id | None = None,
        kind: OneOrMany | None = None,
        **paging: Unpack[Paging],
    ) -> Page[Observation]:
        """Return a page of observations, turn by turn."""
        parents = of_ids(agent_state_id=agent_state_id, training_run_id=training_run_id)
        return cls._page(*parents, *matching(kind=kind), **paging)


class GenerationManager(Manager[Generation]):
    """Records and reads the tokens of prompts and completions."""

    table = "generations"
    noun = "generation"
    order_by = ("agent_state_id", "position")

    @classmethod
    def log_generation(
        cls,
        agent_state_id: Id,
        *,
        prompt_ids: Sequence[int] | None = None,
        completion_ids: Sequence[int] | None = None,
        logprobs: Sequence[float] | None = None,
        mask: Sequence[bool] | None = None,
        advantages: Sequence[float] | None = None,
        model: str | None = None,
        policy_version: int | None = None,
        finish_reason: str | None = None,
        position: int | None = None,
    ) -> Generation:
        """Record a generation and return it; logprobs, mask and advantages have the length of the completion."""
        turn = as_id(agent_state_id, field="agent_state_id")
        return cls._append(
            None,
            agent_state_id=turn,
            position=position,
            prompt_ids=prompt_ids,
            completion_ids=completion_ids,
            logprobs=logprobs,
            mask=mask,
            advantages=advantages,
            model=model,
            policy_version=policy_version,
            finish_reason=finish_reason,
        )

    @classmethod
    def get_generation(cls, generation: Id) -> Generation:
        """Return a generation; an unknown id raises `NotFoundError`."""
        return cls._get(generation, field="generation_id")

    @classmethod
    def get_prompt_ids(cls, generation: Id) -> list[int] | None:
        """Return all tokens of a generation's prompt; its `prompt_ids` may hold only the new ones."""
        tokens = cls._client().rpc("generation_prompt", {"generation_id": as_id(generation, field="generation_id")})
        return None if tokens is None else [int(token) for token in tokens]

    @classmethod
    def list_generations(
        cls,
        *,
        agent_state_id: Id | Sequence[Id] | None = None,
        training_run_id: Id | None = None,
        policy_version: int | None = None,
        **paging: Unpack[Paging],
    ) -> Page[Generation]:
        """Return a page of generations, turn by turn."""
        parents = of_ids(agent_state_id=agent_state_id, training_run_id=training_run_id)
        return cls._page(*parents, *matching(policy_version=policy_version), **paging)
