"""The report of a run: collect it, then print it."""

from __future__ import annotations

import json
import math
from typing import Any

from rich.markup import escape

from openmanus_rl.cli.charts import sparkline
from openmanus_rl.cli.console import output, print_facts
from openmanus_rl.cli.rendering import (
    ago,
    duration,
    figure,
    headline,
    new_table,
    percent,
    print_table,
    shortened,
    status_text,
)
from openmanus_rl.managers.checkpoints import ModelCheckpointManager
from openmanus_rl.managers.evaluations import EvaluationManager
from openmanus_rl.managers.metrics import MetricManager
from openmanus_rl.managers.runs import TrainingRunManager
from openmanus_rl.managers.status_history import StatusHistoryManager
from openmanus_rl.records.rows import RunOverview
from openmanus_rl.transport.rest import Row

__all__ = ["gather", "print_report"]

# A few hundred points are enough for a sparkline; a run may have a hundred metrics.
_POINTS_PER_METRIC = 200
_SHOWN_METRICS = 24
_SHOWN_ROWS = 20


def gather(run: RunOverview) -> dict[str, Any]:
    """Return a run with its counts, metrics, evaluations, checkpoints and status history."""
    run_id = run["id"]
    counts = TrainingRunManager.get_metrics(run_id, rollout_limit=0)
    del counts["rollouts"]
    series = MetricManager.get_series(run_id, max_points=_POINTS_PER_METRIC)
    return {
        "run": run,
        "rewinds": TrainingRunManager.list_rewinds(run_id) if run["timeline"] else [],
        "counts": counts,
        "metrics": {
            name: {"last_step": points[-1].step, "last_value": points[-1].value, "values": [p.value for p in points]}
            for name, points in series.items()
        },
        "evaluations": EvaluationManager.list_evaluations(training_run_id=run_id, order_by=("step", "created_at")).rows,
        "checkpoints": ModelCheckpointManager.list_checkpoints(training_run_id=run_id).rows,
        "status_history": StatusHistoryManager.list_changes(entity_id=run_id).rows,
    }


def print_report(report: dict[str, Any]) -> None:
    """Print what `gather` returned."""
    _print_head(report["run"], report["counts"], report["rewinds"])
    _print_metrics(report["metrics"])
    _print_evaluations(report["evaluations"])
    _print_checkpoints(report["checkpoints"])
    _print_history(report["status_history"])


def _print_head(run: RunOverview, counts: dict[str, Any], rewinds: list[int]) -> None:
    output.print(f"[bold]{escape(run['name'])}[/]  ", status_text(run["shown_status"]))
    facts = {"Id": run["id"]}
    if run["run_name"]:
        facts["Run name"] = run["run_name"]
    facts["Algorithm"] = f"{run['algorithm'] or '–'} in {run['environment'] or '–'}"
    facts["Progress"] = f"{percent(run['progress'])}, {_how_far(run)}"
    facts["Time"] = f"started {ago(run['started_at'] or run['created_at'])}, took " + duration(
        run["started_at"] or run["created_at"], run["finished_at"]
    )
    if run["shown_status"] == "stalled":
        facts["Heartbeat"] = f"last seen {ago(run['heartbeat_at'])}: its process has probably ended"
    if run["status_message"]:
        facts["Message"] = run["status_message"]
    if rewinds:
        facts["Rewound"] = f"to step {', then to step '.join(map(str, rewinds))}; hidden records are kept"
    facts["Rollouts"] = (
        f"{counts['total_rollouts']}, of which {counts['completed_rollouts']} completed, "
        f"{counts['successful_rollouts']} successful ({percent(counts['success_rate'])})"
    )
    facts["Averages"] = f"reward {figure(counts['average_reward'])}, {figure(counts['average_steps'], digits=1)} turns"
    if run["archive_status"] is not None:
        facts["Archive"] = (
            f"{run['archive_status']}: turns and metric points are in storage; "
            f"`openmanus-rl archive restore {run['id']}` brings them back"
        )
    if run["tags"]:
        facts["Tags"] = ", ".join(run["tags"])
    if run["config"]:
        facts["Config"] = shortened(", ".join(f"{k}={_plain(v)}" for k, v in run["config"].items()), 200)
    print_facts(facts)


def _how_far(run: RunOverview) -> str:
    at = "–" if run["current_step"] is None else f"step {run['current_step']}"
    if run["total_steps"] is None:
        return at
    # If steps start at 0, or the last one still runs, its number is not the number of finished steps.
    is_count = run["steps_done"] in (run["current_step"], None)
    return f"{at} of {run['total_steps']}" if is_count else f"{at}, {run['steps_done']} of {run['total_steps']} done"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _print_metrics(metrics: dict[str, Any]) -> None:
    if not metrics:
        return
    headline("Metrics")
    table = new_table("name", "last", "lowest", "highest", "step", "curve", right=("last", "lowest", "highest", "step"))
    for name in sorted(metrics)[:_SHOWN_METRICS]:
        metric = metrics[name]
        known = [value for value in metric["values"] if math.isfinite(value)] or [math.nan]
        table.add_row(
            escape(name),
            f"{metric['last_value']:.4g}",
            f"{min(known):.4g}",
            f"{max(known):.4g}",
            str(metric["last_step"]),
            f"[cyan]{sparkline(metric['values'], width=32)}[/]",
        )
    print_table(table)
    _print_rest(len(metrics), _SHOWN_METRICS, "metrics")


def _print_evaluations(evaluations: list[Row]) -> None:
    if not evaluations:
        return
    headline("Evaluations")
    # The others are compared to the first baseline that has a success rate.
    baseline = next((row for row in evaluations if row["kind"] == "baseline" and row["success_rate"] is not None), None)
    columns = ("kind", "step", "status", "success rate", "vs baseline", "mean reward", "mean turns", "model")
    table = new_table(*columns, right=("step", "success rate", "vs baseline", "mean reward", "mean turns"))
    for row in evaluations[-_SHOWN_ROWS:]:
        table.add_row(
            row["kind"],
            "–" if row["step"] is None else str(row["step"]),
            status_text(row["status"]),
            percent(row["success_rate"]),
            _against(row, baseline),
            figure(row["mean_reward"]),
            figure(row["mean_turns"], digits=1),
            escape(row["model"] or ""),
        )
    print_table(table)
    _print_rest(len(evaluations), _SHOWN_ROWS, "evaluations", which="last")


def _against(row: Row, baseline: Row | None) -> str:
    if baseline is None or row["id"] == baseline["id"] or row["success_rate"] is None:
        return ""
    gain = (row["success_rate"] - baseline["success_rate"]) * 100
    colour = "green" if gain > 0 else "red" if gain < 0 else "dim"
    return f"[{colour}]{gain:+.0f} points[/]"


def _print_checkpoints(checkpoints: list[Row]) -> None:
    if not checkpoints:
        return
    headline("Checkpoints")
    table = new_table("number", "step", "size", "file", "saved", right=("number", "step", "size"))
    for row in checkpoints[-_SHOWN_ROWS:]:
        size = "–" if row["size_bytes"] is None else f"{row['size_bytes'] / 1024:,.0f} KB"
        step = "–" if row["step"] is None else str(row["step"])
        table.add_row(
            str(row["checkpoint_number"]), step, size, escape(row["storage_path"] or "–"), ago(row["created_at"])
        )
    print_table(table)
    _print_rest(len(checkpoints), _SHOWN_ROWS, "checkpoints", which="last")


def _print_history(changes: list[Row]) -> None:
    headline("Status history")
    for change in changes[-_SHOWN_ROWS:]:
        before = f"{change['old_status']} → " if change["old_status"] else ""
        message = f"  [dim]{escape(shortened(change['message'], 100))}[/]" if change["message"] else ""
        output.print(f"  {change['changed_at'][:19].replace('T', ' ')}  {before}{change['new_status']}{message}")


def _print_rest(total: int, shown: int, noun: str, *, which: str = "first") -> None:
    if total > shown:
        output.print(f"[dim]The {which} {shown} of {total} {noun}; --json shows all[/]")
