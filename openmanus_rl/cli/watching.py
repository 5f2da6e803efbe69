"""`rollouts watch`: follow rollouts until they have ended."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from openmanus_rl.cli.console import messages, output
from openmanus_rl.cli.options import JsonOption
from openmanus_rl.cli.references import find_rollout
from openmanus_rl.cli.rendering import figure, shortened, status_text
from openmanus_rl.errors import OpenManusError
from openmanus_rl.managers.queue import QueueManager
from openmanus_rl.managers.rollouts import RolloutManager
from openmanus_rl.records.rows import Rollout
from openmanus_rl.transport.filters import Filter

__all__ = ["watch"]

_LOOK_SECONDS = 1.0
_PAGE = 200
_MOST_HELD = 1000
_OPEN = ("pending", "provisioning", "running")
_GOOD = ("success", "completed")
_DELETED = "deleted"

State = dict[str, Any]


def watch(
    rollouts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ROLLOUT]...", help="Ids, or the first characters of ids; by default all that wait or run."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Follow rollouts until they have ended: a line for each change of status, turns, reward or error.

    Exit code 0: all ended with success or completed. 1: one of them ended otherwise, or was deleted.

    \b
    openmanus-rl rollouts watch
    openmanus-rl rollouts watch 0199f3c2-7d1e 0199f3c2-8a01 --json
    """
    ids = [find_rollout(one)["id"] for one in rollouts] if rollouts else [row["id"] for row in _open_rollouts()]
    if not ids and not as_json:
        output.print("Nothing waits or runs")
    ended = _follow(list(dict.fromkeys(ids)), as_json=as_json)
    if ended and not as_json:
        counts = Counter(state["status"] for state in ended)
        output.print(", ".join(f"{count} {status}" for status, count in sorted(counts.items())))
    if any(state["status"] not in _GOOD for state in ended):
        raise typer.Exit(1)


def _open_rollouts() -> Iterator[Rollout]:
    """Yield what is in the queue, the oldest first. Pages by id: while they are read, some end."""
    after: list[Filter] = []
    while True:
        page = RolloutManager.list_rollouts(
            status=_OPEN,
            include_rewound=True,
            filters=[Filter.not_null("request"), *after],
            order_by="id",
            limit=_PAGE,
        )
        yield from page.rows
        if len(page.rows) < _PAGE:
            return
        after = [Filter.gt("id", page.rows[-1]["id"])]


def _follow(ids: Sequence[str], *, as_json: bool) -> list[State]:
    """Print each change until all have ended, and return how."""
    known: dict[str, State] = {}
    left = list(ids)
    is_failing = False
    with messages.status("") as line:
        while left:
            try:
                states = _look(left)
                is_failing = False
            except OpenManusError as error:
                if not error.transient:
                    raise
                if not is_failing:
                    messages.print(f"[yellow]trying again:[/] {escape(str(error))}")
                is_failing, states = True, []
            for state in states:
                if state != known.get(state["id"]):
                    known[state["id"]] = state
                    _print(state, as_json=as_json)
            left = [one for one in left if one not in known or known[one]["status"] in _OPEN]
            if left:
                counts = Counter(known[one]["status"] for one in left if one in known)
                line.update(", ".join(f"{counts[status]} {status}" for status in _OPEN))
                time.sleep(_LOOK_SECONDS)
    return [known[one] for one in ids]


def _look(ids: Sequence[str]) -> list[State]:
    """Return the state of rollouts now, in their order."""
    # Those that workers hold have no number of turns yet; their cards have. They come first: one that ends in between
    # is then seen as ended, with all of its turns.
    held = {card["id"]: card for card in QueueManager.queue_overview(listed=_MOST_HELD)["held"]}
    rows: dict[str, Rollout] = {}
    for start in range(0, len(ids), _PAGE):
        chosen = [Filter.in_("id", ids[start : start + _PAGE])]
        found = RolloutManager.list_rollouts(filters=chosen, include_rewound=True, limit=_PAGE)
        rows |= {row["id"]: row for row in found}
    return [_state(one, rows.get(one), held.get(one)) for one in ids]


def _state(rollout_id: str, row: Rollout | None, card: Any) -> State:
    if row is None:
        return {"id": rollout_id, "status": _DELETED}
    is_open = row["status"] in _OPEN
    turns = row["step_count"] if not is_open or card is None else card["turns"]
    return {
        "id": rollout_id,
        "status": row["status"],
        "cancelling": is_open and row["cancel_requested_at"] is not None,
        "attempt": row["attempt"],
        "turns": turns,
        "total_reward": row["total_reward"],
        "message": row["status_message"],
        "error": row["error"],
    }


def _print(state: State, *, as_json: bool) -> None:
    if as_json:
        # A line each, at once: whoever reads it acts on it.
        sys.stdout.write(json.dumps(state) + "\n")
        sys.stdout.flush()
        return
    status = "cancelling" if state.get("cancelling") else state["status"]
    line = Text.assemble((f"{state['id']}  ", "dim"), status_text(status), " " * (12 - len(status)))
    if state.get("turns"):
        line.append(f"  {state['turns']} turn{'s' if state['turns'] != 1 else ''}")
    if state.get("total_reward") is not None:
        line.append(f"  reward {figure(state['total_reward'])}")
    if told := state.get("error") or state.get("message"):
        line.append(f"  {shortened(told, 120)}")
    output.print(line)
