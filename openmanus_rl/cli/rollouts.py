"""`rollouts`: list rollouts and show them turn by turn; `requests` has what is asked of the queue."""

from __future__ import annotations

import json
from typing import Annotated, Any, get_args

import typer
from rich.markup import escape
from rich.table import Table

from openmanus_rl.cli import requests, watching
from openmanus_rl.cli.console import output, print_facts, print_json
from openmanus_rl.cli.options import (
    EnvironmentOption,
    JsonOption,
    LimitOption,
    OffsetOption,
    RewoundOption,
    check_choice,
    order_from,
)
from openmanus_rl.cli.references import find_rollout, find_run
from openmanus_rl.cli.rendering import (
    ago,
    duration,
    figure,
    headline,
    new_table,
    print_table,
    shortened,
    status_text,
)
from openmanus_rl.managers.archives import ArchiveManager
from openmanus_rl.managers.rewards import RewardManager
from openmanus_rl.managers.rollouts import RolloutManager
from openmanus_rl.managers.tool_calls import ToolCallManager
from openmanus_rl.managers.turns import TurnManager
from openmanus_rl.managers.validations import ValidationManager
from openmanus_rl.records.rows import Reward, Rollout, ToolCall
from openmanus_rl.records.statuses import RolloutSource, RolloutStatus
from openmanus_rl.transport.filters import Filter
from openmanus_rl.transport.rest import Row

app = typer.Typer(no_args_is_help=True, help="Ask for rollouts, list them, and show them turn by turn.")
app.command()(requests.new)
app.command()(requests.evaluate)

_SORTS = {"created": "created_at", "reward": "total_reward", "steps": "step_count", "episode": "episode_number"}
_SHORT_TEXT = 400
_MOST_TURNS = 100


@app.command("list")
def list_rollouts(
    run: Annotated[
        str | None, typer.Option("--run", help="Only this run: an id, the start of an id, or a run_name.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", help=f"Only rollouts with this status: {', '.join(get_args(RolloutStatus))}."),
    ] = None,
    environment: EnvironmentOption = None,
    source: Annotated[
        str | None,
        typer.Option("--source", help=f"Only rollouts from this source: {', '.join(get_args(RolloutSource))}."),
    ] = None,
    step: Annotated[int | None, typer.Option("--step", min=0, help="Only rollouts of this training step.")] = None,
    include_rewound: RewoundOption = False,
    sort: Annotated[
        str, typer.Option("--sort", help=f"Sort by {', '.join(_SORTS)}; prefix with - for descending order.")
    ] = "-created",
    limit: LimitOption = 20,
    offset: OffsetOption = 0,
    as_json: JsonOption = False,
) -> None:
    """List rollouts, newest first.

    \b
    openmanus-rl rollouts list --run my-run --status success --sort=-reward
    openmanus-rl rollouts list --environment alfworld --source evaluation
    """
    check_choice("--status", status, get_args(RolloutStatus))
    check_choice("--source", source, get_args(RolloutSource))
    page = RolloutManager.list_rollouts(
        training_run_id=None if run is None else find_run(run)["id"],
        status=status,
        environment=environment,
        source=source,
        step=step,
        include_rewound=include_rewound,
        order_by=order_from(sort, _SORTS),
        limit=limit,
        offset=offset,
        count=True,
    )
    if as_json:
        print_json({"total": page.total, "rollouts": page.rows})
        return
    if not page.rows:
        output.print("No rollouts match")
        return
    table = new_table(
        "id", "status", "reward", "turns", "source", "environment", "task", "when", right=("reward", "turns")
    )
    for row in page.rows:
        table.add_row(
            row["id"],
            status_text(row["status"]),
            figure(row["total_reward"]),
            str(row["step_count"] if row["step_count"] is not None else "–"),
            row["source"],
            escape(row["environment"]),
            escape(shortened(row["task_description"], 50)),
            ago(row["created_at"]),
        )
    print_table(table)
    output.print(f"[dim]{len(page.rows)} of {page.total}; show one with `openmanus-rl rollouts show ID`[/]")


@app.command()
def show(
    rollout: Annotated[str, typer.Argument(metavar="ROLLOUT", help="An id, or the first characters of an id.")],
    turns: Annotated[
        int, typer.Option("--turns", min=1, max=_MOST_TURNS, help="Maximum number of turns to show.")
    ] = 20,
    start: Annotated[int, typer.Option("--from", min=0, help="Number of the first turn to show.")] = 0,
    full: Annotated[bool, typer.Option("--full", help="Show long texts in full.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show one rollout turn by turn: observations, thoughts, actions, tool calls and rewards.

    \b
    openmanus-rl rollouts show 0199f3c2-7d1e
    openmanus-rl rollouts show 0199f3c2-7d1e --from 20 --turns 10 --full
    """
    row = find_rollout(rollout)
    details = _read(row, turns=turns, start=start)
    is_loaded = False
    if not details["turns"] and row["training_run_id"] and ArchiveManager.find_archive(row["training_run_id"]):
        is_loaded = sum(ArchiveManager.load_rollout(row["id"]).values()) > 0
        details = _read(row, turns=turns, start=start)
    if as_json:
        print_json(details)
        return
    _print_head(row)
    if is_loaded:
        output.print("[dim]Its run is archived: the turns were loaded from the archive, for a day[/]")
    for turn in details["turns"]:
        _print_turn(turn, text_limit=None if full else _SHORT_TEXT)
    if details["next_from"] is not None:
        output.print(f"\n[dim]More turns follow: --from {details['next_from']}[/]")
    _print_verdicts(details)


app.command()(watching.watch)
app.command()(requests.cancel)
app.command()(requests.retry)
app.command()(requests.delete)


def _read(rollout: Rollout, *, turns: int, start: int) -> dict[str, Any]:
    """Return the rollout with some of its turns, each with its tool calls and rewards."""
    page = TurnManager.list_turns(rollout["id"], from_step_number=start, limit=turns)
    calls: dict[str, list[ToolCall]] = {turn["id"]: [] for turn in page.rows}
    if calls:
        for call in ToolCallManager.list_tool_calls(agent_state_id=list(calls), limit=1000):
            calls[call["agent_state_id"]].append(call)
    rewards: dict[int | None, list[Reward]] = {}
    if page.rows:
        last = page.rows[-1]["step_number"]
        shown = [Filter.gte("step_number", page.rows[0]["step_number"]), Filter.lte("step_number", last)]
        for reward in RewardManager.list_rewards(rollout["id"], filters=shown, limit=1000):
            rewards.setdefault(reward["step_number"], []).append(reward)
    outcome = RewardManager.list_rewards(rollout["id"], filters=[Filter.is_null("step_number")], order_by="reward_type")
    more = page.next_offset is not None
    return {
        **rollout,
        "turns": [
            {**turn, "tool_calls": calls[turn["id"]], "rewards": rewards.get(turn["step_number"], [])}
            for turn in page.rows
        ],
        "next_from": page.rows[-1]["step_number"] + 1 if more else None,
        "rewards": outcome.rows,
        "validations": ValidationManager.list_validations(rollout_id=rollout["id"], order_by="validator_name").rows,
    }


def _print_head(rollout: Rollout) -> None:
    output.print(f"[bold]Rollout {rollout['id']}[/]  ", status_text(rollout["status"]))
    facts = {
        "Task": rollout["task_description"] or "–",
        "Environment": rollout["environment"],
        "Reward": f"{figure(rollout['total_reward'], digits=3)} in {rollout['step_count'] or '–'} turns",
        "Source": f"{rollout['source']}, episode {rollout['episode_number']}",
        "Run": rollout["training_run_id"] or "–",
        "When": f"{ago(rollout['created_at'])}, took {duration(rollout['started_at'], rollout['finished_at'])}",
    }
    if rollout["model"]:
        version = rollout["policy_version"]
        facts["Model"] = rollout["model"] if version is None else f"{rollout['model']}, policy version {version}"
    if rollout["agent"]:
        facts["Agent"] = rollout["agent"]
    if rollout["cost_usd"] is not None or rollout["input_tokens"] is not None:
        tokens = f"{rollout['input_tokens'] or 0:,} in, {rollout['output_tokens'] or 0:,} out"
        facts["Tokens"] = tokens if rollout["cost_usd"] is None else f"{tokens}, {rollout['cost_usd']:.4f} USD"
    if rollout["result"] is not None:
        result = rollout["result"]
        facts["Answer"] = shortened(result if isinstance(result, str) else json.dumps(result), _SHORT_TEXT)
    if rollout["rewound_at"]:
        facts["Hidden"] = f"{ago(rollout['rewound_at'])}, when its run was rewound"
    if message := rollout["error"] or rollout["status_message"]:
        facts["Message"] = message
    print_facts(facts)


def _print_turn(turn: Row, *, text_limit: int | None) -> None:
    def text(value: str) -> str:
        return escape(value if text_limit is None else shortened(value, text_limit))

    earned = sum(reward["reward"] for reward in turn["rewards"])
    reward = f"  [dim]reward[/] {earned:+.3f}" if turn["rewards"] else ""
    output.print(f"\n[bold]Turn {turn['step_number']}[/]{reward}")
    lines = [
        ("saw", turn["observation"], ""),
        ("thought", turn["thought"], "italic"),
        ("did", turn["action"], "bold cyan"),
    ]
    for label, value, style in lines:
        if value:
            _print_line(label, f"[{style}]{text(value)}[/]" if style else text(value))
    for call in turn["tool_calls"]:
        arguments = json.dumps(call["tool_input"], ensure_ascii=False) if call["tool_input"] else ""
        mark = {True: "[green]✓[/]", False: "[red]✗[/]", None: "·"}[call["success"]]
        took = "" if call["execution_time_ms"] is None else f" [dim]{call['execution_time_ms']:.3g} ms[/]"
        answer = call["tool_output"] if call["success"] is not False else call["error_message"] or call["tool_output"]
        called = text(f"{call['tool_name']}({arguments})")
        _print_line("tool", f"{mark} {called}{took} → {text(answer or '')}")


def _print_line(label: str, content: str) -> None:
    """Print a labelled text, with all its lines indented alike."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=8, justify="right", style="dim")
    grid.add_column(overflow="fold")
    grid.add_row(label, content)
    output.print(grid)


def _print_verdicts(details: dict[str, Any]) -> None:
    if details["rewards"]:
        headline("Rewards of the whole rollout")
        print_facts({reward["reward_type"]: f"{reward['reward']:+.3f}" for reward in details["rewards"]})
    if details["validations"]:
        headline("Validations")
        table = new_table("validator", "verdict", "expected", "actual")
        for row in details["validations"]:
            expected, actual = shortened(row["expected"], 60), shortened(row["actual"], 60)
            table.add_row(escape(row["validator_name"]), status_text(row["verdict"]), escape(expected), escape(actual))
        print_table(table)
