#!/usr/bin/env python3
"""Write docs/data-model.md's reference and docs/images/data-model.svg from the catalog of a migrated database.

DATABASE_URL=… scripts/generate_data_model.py [FOLDER]     FOLDER is the checkout to write to (default: this one)
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE = Path("docs/data-model.md"), Path("docs/images/data-model.svg")
MARK = "<!-- Below this line: written by scripts/generate_data_model.py. Do not edit. -->"

# Where each table stands in the diagram, column by column. A table that is missing here stops the script.
LAYOUT = (
    (
        "training_runs",
        "metric_chunks",
        "metric_axes",
        "rewinds",
        "archives",
        "status_history",
        "rollout_stats",
        "activity",
        "workers",
    ),
    (
        "training_steps",
        "evaluations",
        "model_checkpoints",
        "evaluation_results",
        "tasks",
        "validators",
        "environments",
        "environment_versions",
    ),
    ("rollout_groups", "rollouts", "rewards", "validations", "validation_overrides"),
    ("agent_states", "tool_calls", "generations", "observations", "media"),
    (
        "jobs",
        "job_logs",
        "orchestrators",
        "sweeps",
        "sweep_trials",
        "members",
        "member_keys",
        "invitations",
        "audit_log",
    ),
)
BOX_WIDTH, GAP_X, GAP_Y, TITLE_HEIGHT, LINE_HEIGHT, MARGIN = 172, 76, 24, 26, 18, 20
USERS = "auth.users"


@dataclass(frozen=True)
class Column:
    """A column as the catalog has it."""

    name: str
    type: str
    required: bool
    comment: str | None
    references: str | None


@dataclass(frozen=True)
class Table:
    """A table or a view, with its columns in order."""

    name: str
    is_view: bool
    comment: str
    columns: tuple[Column, ...]

    @property
    def links(self) -> list[Column]:
        """The columns that the diagram shows: those that refer to another table but the users'.

        The run is left out where another parent leads to it: such a table carries it for row level security alone.
        """
        found = [column for column in self.columns if column.references not in (None, USERS)]
        nearer = [column for column in found if column.references != "training_runs"]
        is_needed = self.name in ("evaluations", "training_runs") or not nearer
        return found if is_needed else nearer


_COLUMNS = """
select c.relname, c.relkind = 'v' and c.relname not in (select kind from internal.record_kinds()),
  obj_description(c.oid, 'pg_class'),
  a.attname, format_type(a.atttypid, a.atttypmod),
  (select b.attnotnull from pg_attribute b where b.attrelid = internal.table_of(c.relname) and b.attname = a.attname),
  col_description(c.oid, a.attnum),
  (select case when n.nspname = 'public' then t.relname else n.nspname || '.' || t.relname end
   from internal.parents_of(internal.table_of(c.relname)) p
   join pg_class t on t.oid = p.parent join pg_namespace n on n.oid = t.relnamespace
   where p.field = a.attname order by t.relname limit 1)
from pg_class c join pg_attribute a on a.attrelid = c.oid
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v') and a.attnum > 0 and not a.attisdropped
order by 2, c.relname, a.attnum
"""


def read_tables(database_url: str) -> list[Table]:
    """Return the tables and views of the schema `public`, tables first."""
    found: dict[tuple[str, bool, str], list[Column]] = {}
    with psycopg.connect(database_url) as connection:
        for name, is_view, comment, *column in connection.execute(_COLUMNS):
            found.setdefault((name, is_view, comment), []).append(Column(*column))
    return [Table(*key, tuple(columns)) for key, columns in found.items()]


def reference(tables: list[Table]) -> str:
    """Return the tables and views as Markdown."""
    parts = [MARK, "", "## Tables", ""]
    for table in (one for one in tables if not one.is_view):
        parts += [f"### {table.name}", "", f"{_cell(table.comment)}", "", "| column | type | |", "|---|---|---|"]
        parts += [f"| `{column.name}` | {column.type} | {_about(column)} |" for column in table.columns]
        parts.append("")
    parts += ["## Views", "", "| view | |", "|---|---|"]
    parts += [f"| `{view.name}` | {_cell(view.comment)} |" for view in tables if view.is_view]
    return "\n".join(parts) + "\n"


def _about(column: Column) -> str:
    said = ["required"] if column.required else []
    if column.references == USERS:
        said.append(f"→ {USERS}")
    elif column.references is not None:
        said.append(f"→ [{column.references}](#{column.references})")
    if column.comment:
        said.append(_cell(column.comment))
    return "; ".join(said)


def _cell(text: str) -> str:
    return escape(text, quote=False).replace("|", "\\|").replace("\n", " ").replace("[", "\\[")


def picture(tables: list[Table]) -> str:
    """Return the diagram as SVG: boxes with the columns that refer to other tables, and a line for each of these."""
    known = {table.name: table for table in tables if not table.is_view}
    placed = {name for column in LAYOUT for name in column}
    if placed != set(known):
        sys.exit(f"LAYOUT and the database differ: {', '.join(sorted(placed ^ set(known)))}")
    places = _places(known)
    height = max(y + _height(known[name]) for name, (_, y) in places.items()) + MARGIN
    # Before the first column and behind the last one there is room for the lines within them.
    width = GAP_X + len(LAYOUT) * (BOX_WIDTH + GAP_X)
    lines = [_line(places, table, at) for table in known.values() for at in range(len(table.links))]
    boxes = [_box(known[name], *place) for name, place in places.items()]
    style = (
        "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#374151}"
        ".name{font-weight:700;fill:#fff}.line{fill:none;stroke:#64748b;stroke-width:1.3}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img">\n<title>Tables of the database and the columns by which they refer to each other</title>\n'
        f"<style>{style}</style>\n"
        '<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#64748b"/></marker></defs>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#f8fafc"/>\n' + "\n".join(lines + boxes) + "\n</svg>\n"
    )


def _height(table: Table) -> int:
    return TITLE_HEIGHT + LINE_HEIGHT * len(table.links) + (8 if table.links else 0)


def _places(known: dict[str, Table]) -> dict[str, tuple[int, int]]:
    places = {}
    for index, names in enumerate(LAYOUT):
        x, y = GAP_X + index * (BOX_WIDTH + GAP_X), MARGIN
        for name in names:
            places[name] = (x, y)
            y += _height(known[name]) + GAP_Y
    return places


def _box(table: Table, x: int, y: int) -> str:
    height = _height(table)
    parts = [
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{height}" rx="5" fill="#fff" stroke="#94a3b8"/>',
        f'<path d="M{x} {y + TITLE_HEIGHT}v{5 - TITLE_HEIGHT}q0 -5 5 -5h{BOX_WIDTH - 10}q5 0 5 5v{TITLE_HEIGHT - 5}z" '
        'fill="#334155"/>',
        f'<text class="name" x="{x + 9}" y="{y + 17}">{table.name}</text>',
    ]
    for at, column in enumerate(table.links):
        parts.append(f'<text x="{x + 9}" y="{_line_y(y, at) + 4}">{column.name}</text>')
    return "".join(parts)


def _line_y(y: int, at: int) -> int:
    return y + TITLE_HEIGHT + 4 + LINE_HEIGHT * at + LINE_HEIGHT // 2


def _line(places: dict[str, tuple[int, int]], table: Table, at: int) -> str:
    target = str(table.links[at].references)
    (x, y), (to_x, to_y) = places[table.name], places[target]
    start_y, end_y = _line_y(y, at), to_y + TITLE_HEIGHT // 2
    if to_x < x:
        start_x, end_x, bend = x, to_x + BOX_WIDTH, -GAP_X // 2
    elif to_x > x:
        start_x, end_x, bend = x + BOX_WIDTH, to_x, GAP_X // 2
    else:
        # In the same column: around its outer side, further out the longer the way.
        is_first = table.name in LAYOUT[0]
        start_x = end_x = x if is_first else x + BOX_WIDTH
        out = 22 + min(40, abs(start_y - end_y) // 9)
        bend = -out if is_first else out
        path = f"M{start_x} {start_y}C{start_x + bend} {start_y} {end_x + bend} {end_y} {end_x} {end_y}"
        return f'<path class="line" marker-end="url(#to)" d="{path}"/>'
    path = f"M{start_x} {start_y}C{start_x + bend} {start_y} {end_x - bend} {end_y} {end_x} {end_y}"
    return f'<path class="line" marker-end="url(#to)" d="{path}"/>'


def main() -> None:
    """Write both files below the given folder."""
    if not os.environ.get("DATABASE_URL"):
        sys.exit(
            "set DATABASE_URL to a migrated database; `openmanus-rl status --env` prints that of the embedded stack"
        )
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    tables = read_tables(os.environ["DATABASE_URL"])
    written = (ROOT / PAGE).read_text().partition(MARK)[0]
    for path, text in ((PAGE, written + reference(tables)), (PICTURE, picture(tables))):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


if __name__ == "__main__":
    main()
