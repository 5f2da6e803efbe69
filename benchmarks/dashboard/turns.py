"""Turns for the newest rollouts, and rollouts that are hard to show: long, with a large output, hostile."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from benchmarks.dashboard.texts import HOSTILE, TOOLS, Pool, long_output

__all__ = ["TurnWriter", "write_special_rollouts", "write_turns"]

_COLUMNS = {
    "agent_states": "id rollout_id training_run_id step_number observation action thought memory_summary info "
    "model_response duration_ms model_duration_ms environment_duration_ms created_at",
    "tool_calls": "id agent_state_id training_run_id position tool_name tool_input tool_output success error_message "
    "execution_time_ms created_at",
    "rewards": "id rollout_id training_run_id step_number reward_type reward details created_at",
    "generations": "id agent_state_id training_run_id model policy_version completion_ids logprobs mask advantages "
    "finish_reason",
    "observations": "id agent_state_id training_run_id position kind text",
    "validations": "id rollout_id training_run_id validator_name verdict score expected actual message created_at",
}
_TOOL_ERRORS = ("FileNotFoundError: no such file: answer.txt", "exit code 1", "timed out after 30 s", "HTTP 503")


class TurnWriter:
    """Collects rows of turns, and copies them to their tables."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.pool = Pool(seed)
        self._rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self._made = 0

    def turn(self, rollout: dict[str, Any], number: int, **texts: Any) -> str:
        """Add a turn with texts from the pool where none are given; return its id."""
        chance, pool = self.chance, self.pool
        turn_id = self._new_id()
        thinking, acting = chance.uniform(200, 4000), chance.uniform(5, 900)
        at = rollout["created_at"] + timedelta(seconds=3 * number)
        self._add(
            "agent_states", turn_id, rollout["id"], rollout["training_run_id"], number,
            texts.get("observation") or chance.choice(pool.observations),
            texts.get("action") or chance.choice(pool.actions),
            texts.get("thought") or chance.choice(pool.thoughts),
            texts.get("memory_summary"), texts.get("info"), texts.get("model_response"),
            thinking + acting, thinking, acting, at,
        )  # fmt: skip
        return turn_id

    def tool_call(self, rollout: dict[str, Any], turn_id: str, number: int, *, position: int = 0, **texts: Any) -> None:
        """Add a tool call; one in twelve fails."""
        chance = self.chance
        failed = texts.get("output") is None and chance.random() < 1 / 12
        self._add(
            "tool_calls", self._new_id(), turn_id, rollout["training_run_id"], position,
            texts.get("tool_name") or chance.choice(TOOLS),
            Jsonb(texts.get("input") or {"query": chance.choice(self.pool.actions), "limit": chance.randint(1, 20)}),
            None if failed else texts.get("output") or chance.choice(self.pool.outputs),
            not failed, chance.choice(_TOOL_ERRORS) if failed else texts.get("error_message"), chance.uniform(3, 3000),
            rollout["created_at"] + timedelta(seconds=3 * number),
        )  # fmt: skip

    def reward(
        self, rollout: dict[str, Any], number: int | None, kind: str, reward: float, details: Any = None
    ) -> None:
        """Add a component of the reward."""
        self._add("rewards", self._new_id(), rollout["id"], rollout["training_run_id"], number, kind, reward, details,
                  rollout["created_at"])  # fmt: skip

    def generation(self, rollout: dict[str, Any], turn_id: str, tokens: int) -> None:
        """Add what the model generated, token by token."""
        chance = self.chance
        logprobs = [-(chance.random() ** 6) * 8 for _ in range(tokens)]
        ids = [chance.randrange(150_000) for _ in range(tokens)]
        advantages = [chance.gauss(0, 1)]
        self._add("generations", self._new_id(), turn_id, rollout["training_run_id"], rollout["model"],
                  rollout["policy_version"], ids, logprobs, [True] * tokens, advantages, "stop")  # fmt: skip

    def observation(self, rollout: dict[str, Any], turn_id: str, kind: str, text: str) -> None:
        """Add a further observation of a turn."""
        self._add("observations", self._new_id(), turn_id, rollout["training_run_id"], 0, kind, text)

    def validation(self, rollout: dict[str, Any], *, expected: str, actual: str, message: str | None = None) -> None:
        """Add what a validator said: what the rollout's status says."""
        passed = rollout["status"] == "success"
        self._add("validations", self._new_id(), rollout["id"], rollout["training_run_id"], "exact_match",
                  "pass" if passed else "fail", float(passed), expected, actual, message,
                  rollout["created_at"])  # fmt: skip

    def copy_to(self, connection: psycopg.Connection[Any]) -> None:
        """Copy what was collected, and forget it."""
        for table, rows in self._rows.items():
            columns = sql.SQL(", ").join(map(sql.Identifier, _COLUMNS[table].split()))
            statement = sql.SQL("copy public.{} ({}) from stdin").format(sql.Identifier(table), columns)
            with connection.cursor() as cursor, cursor.copy(statement) as copy:
                for row in rows:
                    copy.write_row(row)
        self._rows.clear()

    def _add(self, table: str, *values: Any) -> None:
        self._rows[table].append(values)

    def _new_id(self) -> str:
        self._made += 1
        # As the ids made in SQL: in the order of making, and the same every time.
        digits = f"{1767225600000 + self._made:012x}7100b{self.chance.getrandbits(60):015x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def write_turns(writer: TurnWriter, rollouts: list[dict[str, Any]]) -> None:
    """Give rollouts, newest first, their turns; the newest tenth also tokens."""
    chance = writer.chance
    for place, rollout in enumerate(rollouts):
        with_tokens = place < max(400, len(rollouts) // 10)
        count = rollout["step_count"] or 1
        # Rollouts of one group see the same at first, and in every other group do the same as well.
        place_of_group = _number_of(str(rollout["group_id"] or rollout["id"]))
        first = {"observation": writer.pool.observations[place_of_group % 400]}
        if place_of_group % 2:
            first["action"] = writer.pool.actions[place_of_group % 400]
        for number in range(count):
            response = _response(chance, writer.pool) if with_tokens and place % 3 == 0 else None
            turn_id = writer.turn(rollout, number, model_response=response, **(first if number == 0 else {}))
            for position in range(chance.choice((0, 1, 1, 2))):
                writer.tool_call(rollout, turn_id, number, position=position)
            if with_tokens:
                tokens = len(response.obj["choices"][0]["logprobs"]["content"]) if response else chance.randint(10, 40)
                writer.generation(rollout, turn_id, tokens)
            if place % 20 == 0:
                writer.observation(rollout, turn_id, "accessibility_tree", chance.choice(writer.pool.observations))
        if rollout["total_reward"] is not None:
            writer.reward(rollout, count - 1, "outcome", rollout["total_reward"])
            writer.reward(rollout, None, "format", 0.0, Jsonb({"valid_actions": count}))
        if rollout["status"] in ("success", "failed"):
            actual = "42" if rollout["status"] == "success" else "something else"
            writer.validation(rollout, expected="42", actual=actual)


def _number_of(made_id: str) -> int:
    # The same in every process, unlike `hash`.
    return int(made_id[-12:], 16)


def _response(chance: random.Random, pool: Pool) -> Jsonb:
    words = chance.choice(pool.thoughts).split(" ")[:30]
    content = [{"token": f" {word}", "logprob": -(chance.random() ** 6) * 8} for word in words]
    return Jsonb({"choices": [{"logprobs": {"content": content}, "finish_reason": "stop"}]})


def write_special_rollouts(
    writer: TurnWriter, rollouts: dict[str, dict[str, Any]], *, long_turns: int, output_bytes: int
) -> None:
    """Give the three rollouts that are hard to show what makes them so."""
    long = rollouts["long_rollout"]
    for number in range(long_turns):
        turn_id = writer.turn(long, number)
        writer.tool_call(long, turn_id, number)
        if number % 10 == 9:
            writer.reward(long, number, "step", writer.chance.choice((-0.1, 0.05, 0.2)))
    big = rollouts["big_output_rollout"]
    for number in range(3):
        turn_id = writer.turn(big, number)
        output = long_output(output_bytes, number) if number == 1 else None
        writer.tool_call(big, turn_id, number, output=output)
    _write_hostile(writer, rollouts["hostile_rollout"])


def _write_hostile(writer: TurnWriter, rollout: dict[str, Any]) -> None:
    for number, text in enumerate(HOSTILE):
        turn_id = writer.turn(
            rollout,
            number,
            observation=text,
            action=text,
            thought=text,
            memory_summary=text,
            info=Jsonb({text[:80]: text}),
        )
        writer.tool_call(
            rollout, turn_id, number, tool_name=text[:60], input={text[:40]: text}, output=text, error_message=text
        )
        writer.observation(rollout, turn_id, "page", text)
    writer.reward(rollout, 0, HOSTILE[0], 1.0, Jsonb({"why": HOSTILE[1]}))
    writer.validation(rollout, expected=HOSTILE[1], actual=HOSTILE[4], message=HOSTILE[0])
