"""Reads the rows to export, a few hundred at a time."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from openmanus_rl.errors import ConflictError
from openmanus_rl.export.chats import chat_of
from openmanus_rl.export.kinds import KINDS, columns_of, shaped
from openmanus_rl.export.paging import pages
from openmanus_rl.export.selection import Selection
from openmanus_rl.managers.chats import MessagePool
from openmanus_rl.managers.metrics import MetricManager
from openmanus_rl.transport.client import Client
from openmanus_rl.transport.filters import Filter, Order, asc, desc
from openmanus_rl.transport.rest import Row

__all__ = ["Progress", "Reader"]

Progress = Callable[[int, int], None]
"""Called with the number of rows done and the total."""

# Oldest first; ids descend, as in the indexes.
_BY_AGE = (asc("created_at"), desc("id"))
_RUNS_PER_PAGE = 200
# Their ids are sent in a URL, whose length is limited.
_ROLLOUTS_PER_PAGE = 100
_TURNS_PER_PAGE = 100
_PARTS_PER_PAGE = 200
# A chunk holds thousands of points.
_CHUNKS_PER_PAGE = 10


# Rows of these are moved when a run is archived.
_ARCHIVED_KINDS = ("turns", "metrics", "chats")

_logger = logging.getLogger(__name__)


class Reader:
    """Yields the rows of each kind that match a selection."""

    def __init__(self, client: Client, selection: Selection, *, on_progress: Progress | None = None) -> None:
        self._client = client
        self._selection = selection
        self._on_progress = on_progress

    def read(self, kind: str) -> Iterator[Row]:
        """Yield rows with exactly the columns of the kind."""
        readers: dict[str, Callable[[], Iterator[Row]]] = {
            "runs": self._runs,
            "rollouts": self._rollouts,
            "turns": self._turns,
            "metrics": self._metrics,
            "chats": self._chats,
        }
        for row in readers[kind]():
            yield shaped(row, KINDS[kind])

    def check_archived(self, kind: str) -> None:
        """Raise an error if the rows of a selected run are in an archive; warn if those of some run are."""
        if kind not in _ARCHIVED_KINDS:
            return
        selected = [Filter.in_("id", list(self._selection.run_ids))] if self._selection.run_ids else []
        # Those that were loaded to be read are there in part.
        is_archived = Filter.eq("archive_status", "archived")
        filters = [is_archived, *selected]
        page = self._client.select("training_runs", columns="id,name", filters=filters, limit=1, count=True)
        if not page.rows:
            return
        first, total = page.rows[0], page.total or 1
        message = (
            f"{first['name']}: its {kind} are in an archive, not in the database"
            if selected
            else f"{kind} of {total} archived runs, such as {first['name']}, are not in this export"
        )
        hint = f"`openmanus-rl archive restore {first['id']}` brings them back; DuckDB reads the archive itself"
        if selected:
            raise ConflictError(f"run {message}", field="run", hint=hint)
        _logger.warning("%s; %s", message, hint)

    def _runs(self) -> Iterator[Row]:
        for page in self._run_pages(columns_of(KINDS["runs"])):
            yield from page

    def _rollouts(self) -> Iterator[Row]:
        of_all = Filter.is_null("step_number")
        for page in self._rollout_pages(columns_of(KINDS["rollouts"])):
            rewards: dict[str, list[Row]] = {}
            for reward in self._parts("rewards", "rollout_id", page, "id", of_all):
                rewards.setdefault(reward["rollout_id"], []).append(reward)
            for rollout in page:
                yield {**rollout, "rewards": sorted(rewards.get(rollout["id"], []), key=_type)}

    def _turns(self) -> Iterator[Row]:
        for page in self._rollout_pages("id,created_at"):
            yield from self._turns_of(page, columns_of(KINDS["turns"]))

    def _chats(self) -> Iterator[Row]:
        columns = "id,created_at,training_run_id,environment,task_description,status,total_reward"
        turn_columns = "id,rollout_id,step_number,observation,thought,action,messages,messages_from,chat"
        for page in self._rollout_pages(columns):
            # Turns are read in the order of rollout ids, so sort the rollouts alike.
            in_order = sorted(page, key=_id)
            turns = groupby(self._turns_of(page, turn_columns, whole=False), key=lambda turn: turn["rollout_id"])
            of_rollout, found = next(turns, (None, iter(())))
            for rollout in in_order:
                if of_rollout != rollout["id"]:
                    yield chat_of(rollout, ())
                    continue
                yield chat_of(rollout, _with_whole_chats(found))
                of_rollout, found = next(turns, (None, iter(())))

    def _metrics(self) -> Iterator[Row]:
        metrics = MetricManager.using(self._client)
        by = (asc("first_step"), asc("id"))
        for runs in self._run_pages("id,created_at"):
            for run in runs:
                for name in metrics.list_names(run["id"]):
                    of_series = [Filter.eq("training_run_id", run["id"]), Filter.eq("name", name)]
                    columns = "id,training_run_id,name,first_step,axis_id,steps,values,times,visible_to"
                    chunks = self._pages("metric_chunks", columns, of_series, by, _CHUNKS_PER_PAGE)
                    of_chunks = _points(chunk for page in chunks for chunk in self._with_axes(page))
                    yield from (row for row in of_chunks if self._selection.include_rewound or row.pop("counts"))

    def _with_axes(self, chunks: list[Row]) -> Iterator[Row]:
        """Yield chunks with steps and times, which may be shared by several of them."""
        ids = [chunk["axis_id"] for chunk in chunks if chunk["axis_id"] is not None]
        of_chunks = [Filter.in_("id", ids)]
        axes = {axis["id"]: axis for axis in self._client.select("metric_axes", filters=of_chunks).rows} if ids else {}
        for chunk in chunks:
            axis = axes.get(chunk["axis_id"], chunk)
            yield {**chunk, "steps": axis["steps"], "times": axis["times"]}

    def _turns_of(self, rollouts: list[Row], columns: str, *, whole: bool = True) -> Iterator[Row]:
        """Yield turns by rollout and number, with their tool calls and, if `whole`, tokens and rewards."""
        of_rollouts = [Filter.in_("rollout_id", [rollout["id"] for rollout in rollouts])]
        by = (asc("rollout_id"), asc("step_number"))
        for turns in self._pages("agent_states", columns, of_rollouts, by, _TURNS_PER_PAGE):
            calls: dict[str, list[Row]] = {}
            for call in self._parts("tool_calls", "agent_state_id", turns, "position"):
                calls.setdefault(call["agent_state_id"], []).append(call)
            # Chats need neither tokens nor rewards.
            rewards = self._rewards_of(turns) if whole else {}
            generations: dict[str, list[Row]] = {}
            for one in self._parts("generations", "agent_state_id", turns, "position") if whole else ():
                generations.setdefault(one["agent_state_id"], []).append(one)
            for turn in turns:
                place = (turn["rollout_id"], turn["step_number"])
                yield {
                    **turn,
                    "tool_calls": calls.get(turn["id"], []),
                    "generations": generations.get(turn["id"], []),
                    "rewards": sorted(rewards.get(place, []), key=_type),
                }

    def _rewards_of(self, turns: list[Row]) -> dict[tuple[str, int], list[Row]]:
        numbers = [turn["step_number"] for turn in turns]
        shown = [Filter.gte("step_number", min(numbers)), Filter.lte("step_number", max(numbers))]
        rollouts = [{"id": rollout_id} for rollout_id in dict.fromkeys(turn["rollout_id"] for turn in turns)]
        found: dict[tuple[str, int], list[Row]] = {}
        for reward in self._parts("rewards", "rollout_id", rollouts, "id", *shown):
            found.setdefault((reward["rollout_id"], reward["step_number"]), []).append(reward)
        return found

    def _parts(self, table: str, parent: str, rows: list[Row], order: str, *filters: Filter) -> Iterator[Row]:
        """Yield the rows of a table that belong to these rows."""
        of_rows = [Filter.in_(parent, [row["id"] for row in rows]), *filters]
        for page in self._pages(table, "*", of_rows, (asc(parent), asc(order)), _PARTS_PER_PAGE):
            yield from page

    def _run_pages(self, columns: str) -> Iterator[list[Row]]:
        filters = self._selection.run_filters()
        if self._selection.run_ids:
            filters.append(Filter.in_("id", self._selection.run_ids))
        return self._counted("training_runs", columns, [filters], _RUNS_PER_PAGE)

    def _rollout_pages(self, columns: str) -> Iterator[list[Row]]:
        filters = self._selection.rollout_filters()
        # Run by run, so that each page is one range of an index.
        of_runs = [[Filter.eq("training_run_id", run_id), *filters] for run_id in self._selection.run_ids]
        return self._counted("rollouts", columns, of_runs or [filters], _ROLLOUTS_PER_PAGE)

    def _counted(self, table: str, columns: str, choices: list[list[Filter]], page_rows: int) -> Iterator[list[Row]]:
        """Yield the pages of each list of filters in turn, and report the progress."""
        total, done = 0, 0
        if self._on_progress is not None:
            total = sum(self._client.count(table, filters=filters) for filters in choices)
            self._on_progress(0, total)
        for filters in choices:
            for page in self._pages(table, columns, filters, _BY_AGE, page_rows):
                page_length = len(page)
                yield page
                done += page_length
                if self._on_progress is not None:
                    # Rows may have been added since they were counted.
                    self._on_progress(done, max(done, total))

    def _pages(
        self, table: str, columns: str, filters: list[Filter], by: tuple[Order, Order], page_rows: int
    ) -> Iterator[list[Row]]:
        return pages(self._client, table, columns=columns, filters=filters, by=by, page_rows=page_rows)


def _with_whole_chats(turns: Iterable[Row]) -> Iterator[Row]:
    """Yield the turns of one rollout in order, each with its whole chat."""
    pool = MessagePool()
    for turn in turns:
        pool.add(turn)
        yield {**turn, "messages": pool.chat_of(turn)}


def _id(row: Row) -> str:
    return str(row["id"])


def _type(reward: Row) -> str:
    return str(reward["reward_type"])


def _points(chunks: Iterable[Row]) -> Iterator[Row]:
    for chunk in chunks:
        of_chunk = {"training_run_id": chunk["training_run_id"], "name": chunk["name"]}
        # Not strict: the axis may have grown since the chunk was read.
        for step, value, when in zip(chunk["steps"], chunk["values"], chunk["times"], strict=False):
            # Values are never unknown: null is a NaN that the server could not encode.
            known = math.nan if value is None else value
            counts = chunk["visible_to"] is None or step <= chunk["visible_to"]
            yield {**of_chunk, "step": step, "value": known, "recorded_at": when, "counts": counts}
