"""Write what Python and TypeScript share with the database: python scripts/lib/write_constants.py FOLDER

Statuses, kinds, codes, the words that columns take and, for Python, the types of rows are read from the database that
DATABASE_URL names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psycopg

HEADER = "Written by scripts/generate_types from the migrations. Do not edit."

# What the words of a column are called. A CHECK that lists words and is not named here stops the generator.
CHOICES = {
    ("training_runs", "status"): "RunStatus",
    ("training_steps", "status"): "StepStatus",
    ("evaluations", "status"): "EvaluationStatus",
    ("rollouts", "status"): "RolloutStatus",
    ("jobs", "status"): "JobStatus",
    ("jobs", "backend"): "JobBackend",
    ("orchestrators", "state"): "OrchestratorState",
    ("sweeps", "status"): "SweepStatus",
    ("sweeps", "method"): "SweepMethod",
    ("sweeps", "direction"): "SweepDirection",
    ("workers", "state"): "WorkerState",
    ("training_steps", "phase"): "StepPhase",
    ("evaluations", "kind"): "EvaluationKind",
    ("rollouts", "source"): "RolloutSource",
    ("media", "kind"): "MediaKind",
    ("validations", "verdict"): "Verdict",
    ("validation_overrides", "verdict"): "OverrideVerdict",
    ("training_runs", "visibility"): "Visibility",
    ("training_runs", "archive_status"): "ArchiveStatus",
    ("members", "role"): "MemberRole",
    ("member_keys", "role"): "MemberRole",
    ("invitations", "role"): "MemberRole",
    ("audit_log", "actor_kind"): "ActorKind",
}
# Several columns may take the same words.
NAMED = {name: key for key, name in reversed(CHOICES.items())}

# What a row of a table is called in Python. A kind of record that is not named here stops the generator.
ROWS = {
    "environments": "Environment",
    "tasks": "Task",
    "validators": "Validator",
    "training_runs": "TrainingRun",
    "training_steps": "TrainingStep",
    "model_checkpoints": "ModelCheckpoint",
    "evaluations": "Evaluation",
    "evaluation_results": "EvaluationResult",
    "rollout_groups": "RolloutGroup",
    "rollouts": "Rollout",
    "agent_states": "AgentState",
    "observations": "Observation",
    "generations": "Generation",
    "tool_calls": "ToolCall",
    "rewards": "Reward",
    "validations": "Validation",
    "validation_overrides": "ValidationOverride",
    "media": "Media",
    "environment_versions": "EnvironmentVersion",
    "jobs": "Job",
    "job_logs": "JobLog",
    "orchestrators": "Orchestrator",
    "sweeps": "Sweep",
    "sweep_trials": "SweepTrial",
    "workers": "Worker",
    "metric_chunks": "MetricChunk",
    "archives": "Archive",
    "members": "Member",
    "member_keys": "MemberKey",
    "invitations": "Invitation",
    "audit_log": "AuditLog",
    "status_history": "StatusChange",
    "run_overview": "RunOverview",
}
# Views, and the tables whose columns they all have.
VIEWS = {"run_overview": "training_runs"}
# Of a view's columns Postgres does not know which are never null.
NEVER_NULL = {("run_overview", "shown_status")}
# What JSON holds of each type of the database.
PYTHON_TYPES = {
    "uuid": "str",
    "text": "str",
    "timestamp with time zone": "str",
    "bigint": "int",
    "integer": "int",
    "smallint": "int",
    "double precision": "float",
    "real": "float",
    "numeric": "float",
    "boolean": "bool",
    "jsonb": "Any",
}


@dataclass(frozen=True)
class Constants:
    """What the database knows and others must know too."""

    choices: dict[tuple[str, str], list[str]]
    next_statuses: dict[str, dict[str, list[str]]]
    completed_rollout_statuses: list[str]
    record_kinds: list[str]
    record_types: dict[str, dict[str, str]]
    """By kind of record: its fields, and the type of each in the database."""
    error_codes: list[str]
    columns: dict[str, dict[str, str]]
    """By table or view: the columns, in their order, and the Python type of each."""


def read_constants(connection: psycopg.Connection[tuple[object, ...]]) -> Constants:
    """Read them from a migrated database."""

    def column(query: str, *values: object) -> list[str]:
        return [str(row[0]) for row in connection.execute(query, values)]

    choices = _read_choices(connection)
    record_kinds = column("select kind from internal.record_kinds() order by place")
    if choices.keys() != CHOICES.keys():
        unnamed, gone = sorted(choices.keys() - CHOICES.keys()), sorted(CHOICES.keys() - choices.keys())
        sys.exit(f"name these columns in {Path(__file__).name}: {unnamed}; they are not there any more: {gone}")
    return Constants(
        choices={key: choices[key] for key in CHOICES},
        next_statuses={
            table: {
                status: column("select unnest(internal.next_statuses(%s, %s))", table, status)
                for status in choices[table, "status"]
            }
            for table, name in CHOICES
            if name == "status"
        },
        completed_rollout_statuses=column(
            "select s from unnest(%s::text[]) with ordinality w (s, n) where internal.is_completed(s) order by n",
            choices["rollouts", "status"],
        ),
        record_kinds=record_kinds,
        record_types={kind: _read_record_types(connection, kind) for kind in record_kinds},
        error_codes=column(
            "select distinct m[1] from pg_catalog.pg_proc p"
            " cross join lateral regexp_matches(p.prosrc, '''(OM\\d{3})''', 'g') m"
            " where p.pronamespace in ('public'::regnamespace, 'internal'::regnamespace) order by 1"
        ),
        columns={table: _read_columns(connection, table) for table in ROWS},
    )


def _read_record_types(connection: psycopg.Connection[tuple[object, ...]], kind: str) -> dict[str, str]:
    found = connection.execute("select name, type from internal.record_columns(%s)", [kind])
    return {str(name): str(type_) for name, type_ in found}


def _read_columns(connection: psycopg.Connection[tuple[object, ...]], table: str) -> dict[str, str]:
    found = connection.execute(
        """select a.attname, format_type(a.atttypid, null), a.attnotnull from pg_catalog.pg_attribute a
           where a.attrelid = internal.table_of(%s) and a.attnum > 0 and not a.attisdropped
           order by a.attnum""",
        [table],
    )
    return {str(name): _python_type(table, str(name), str(type_), bool(required)) for name, type_, required in found}


def _python_type(table: str, column: str, type_: str, is_required: bool) -> str:
    element = PYTHON_TYPES[type_.removesuffix("[]")]
    name = CHOICES.get((table, column)) or (f"list[{element}]" if type_.endswith("[]") else element)
    return name if is_required or (table, column) in NEVER_NULL else f"{name} | None"


def _read_choices(connection: psycopg.Connection[tuple[object, ...]]) -> dict[tuple[str, str], list[str]]:
    """Read the words of each column that a CHECK allows no others, in the order of the CHECK."""
    found = connection.execute(
        """select t.relname, a.attname, pg_get_constraintdef(c.oid)
           from pg_catalog.pg_constraint c
           join pg_catalog.pg_class t on t.oid = c.conrelid
           join pg_catalog.pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
           where c.contype = 'c' and c.connamespace = 'public'::regnamespace and cardinality(c.conkey) = 1
           order by 1, 2"""
    )
    choices = {}
    for table, column, definition in found:
        listed = re.fullmatch(r"CHECK \(\((\w+) = ANY \(ARRAY\[(.*)\]\)\)\)", str(definition))
        if listed:
            choices[str(table), str(column)] = re.findall(r"'([^']*)'::text", listed[2])
    return choices


def statuses_module(constants: Constants) -> str:
    """Return openmanus_rl/records/statuses.py."""
    names = sorted(["COMPLETED_ROLLOUT_STATUSES", "NEXT_STATUSES", *NAMED], key=_as_sorted)
    lines = [
        *_python_header(
            "Statuses, where each may go, and the other words that columns take; the database enforces them."
        ),
        "from typing import Literal",
        "",
        f"__all__ = [{_quoted(names)}]",
        "",
        *(f"{name} = Literal[{_quoted(constants.choices[NAMED[name]])}]" for name in dict.fromkeys(CHOICES.values())),
        "",
        f"COMPLETED_ROLLOUT_STATUSES: frozenset[str] = frozenset({{{_quoted(constants.completed_rollout_statuses)}}})",
        '"""The statuses that count as completed in success rates and averages."""',
        "",
        "NEXT_STATUSES: dict[str, dict[str, frozenset[str]]] = {",
    ]
    for table, transitions in constants.next_statuses.items():
        lines.append(f'    "{table}": {{')
        for status, following in transitions.items():
            allowed = f"frozenset({{{_quoted(following)}}})" if following else "frozenset()"
            lines.append(f'        "{status}": {allowed},')
        lines.append("    },")
    lines += ["}", '"""By table: from each status, those that may follow; none may follow a final one."""', ""]
    return "\n".join(lines)


def kinds_module(constants: Constants) -> str:
    """Return openmanus_rl/records/kinds.py."""
    lines = [
        *_python_header("The kinds of records that `ingest` takes; each is a table."),
        "from typing import Literal",
        "",
        '__all__ = ["RECORD_KINDS", "RECORD_TYPES", "RecordKind"]',
        "",
        f"RecordKind = Literal[{_quoted(constants.record_kinds)}]",
        "",
        f"RECORD_KINDS: tuple[RecordKind, ...] = ({_quoted(constants.record_kinds)})",
        '"""In the order in which they are written: parents before children."""',
        "",
        "RECORD_TYPES: dict[str, dict[str, str]] = {",
    ]
    for kind, types in constants.record_types.items():
        fields = ", ".join(f'"{name}": "{type_}"' for name, type_ in types.items())
        lines.append(f'    "{kind}": {{{fields}}},')
    lines += ["}", '"""By kind: the fields of a record, and the type of each in the database."""', ""]
    return "\n".join(lines)


def codes_module(constants: Constants) -> str:
    """Return openmanus_rl/records/codes.py."""
    lines = [
        *_python_header("The codes that our own SQL raises and refuses with; each ends as its HTTP status does."),
        "from typing import Literal",
        "",
        '__all__ = ["ERROR_CODES", "ErrorCode"]',
        "",
        f"ErrorCode = Literal[{_quoted(constants.error_codes)}]",
        "",
        f"ERROR_CODES: tuple[ErrorCode, ...] = ({_quoted(constants.error_codes)})",
        "",
    ]
    return "\n".join(lines)


def typescript_module(constants: Constants) -> str:
    """Return supabase/functions/_shared/constants.ts."""
    lists = [
        *((_plural(name), name, constants.choices[NAMED[name]]) for name in dict.fromkeys(CHOICES.values())),
        ("COMPLETED_ROLLOUT_STATUSES", "CompletedRolloutStatus", constants.completed_rollout_statuses),
        ("RECORD_KINDS", "RecordKind", constants.record_kinds),
        ("ERROR_CODES", "ErrorCode", constants.error_codes),
    ]
    comments = {
        "COMPLETED_ROLLOUT_STATUSES": "The statuses that count as completed in success rates and averages.",
        "RECORD_KINDS": "The kinds of records that `ingest` takes, parents before children.",
        "ERROR_CODES": "The codes that our own SQL raises and refuses with.",
    }
    lines = [f"// {HEADER}"]
    for name, type_name, words in lists:
        lines.append("")
        if name in comments:
            lines.append(f"/** {comments[name]} */")
        lines += [
            f"export const {name} = [",
            *(f'  "{word}",' for word in words),
            "] as const;",
            f"export type {type_name} = (typeof {name})[number];",
        ]
    lines += ["", "/** The columns that take no other words, by table. */", "export interface Choices {"]
    for table in dict.fromkeys(table for table, _ in CHOICES):
        columns = "; ".join(f"{column}: {name}" for (of, column), name in CHOICES.items() if of == table)
        lines.append(f"  {table}: {{ {columns} }};")
    return "\n".join([*lines, "}", ""])


def rows_module(constants: Constants) -> str:
    """Return openmanus_rl/records/rows.py."""
    missing = [kind for kind in constants.record_kinds if kind not in ROWS]
    if missing:
        sys.exit(f"name the rows of these tables in {Path(__file__).name}: {missing}")
    used_words = sorted({name for (table, _), name in CHOICES.items() if table in ROWS})
    lines = [
        *_python_header(
            "Rows of tables as the managers return them; ids and times are text, and JSON is what was put in it."
        ),
        "from typing import Any, TypedDict",
        "",
        f"from openmanus_rl.records.statuses import {', '.join(used_words)}",
        "",
        f"__all__ = [{_quoted(sorted(['ROW_TYPES', *ROWS.values()], key=_as_sorted))}]",
    ]
    for table, name in ROWS.items():
        inherited = constants.columns[VIEWS[table]] if table in VIEWS else {}
        base = ROWS[VIEWS[table]] if table in VIEWS else "TypedDict"
        lines += ["", "", f"class {name}({base}):", f'    """A row of {table}."""', ""]
        own = {column: type_ for column, type_ in constants.columns[table].items() if column not in inherited}
        lines += [f"    {column}: {type_}" for column, type_ in own.items()]
    lines += ["", "", "ROW_TYPES: dict[str, type] = {"]
    lines += [f'    "{kind}": {ROWS[kind]},' for kind in constants.record_kinds]
    return "\n".join([*lines, "}", '"""By kind of record: the type of its rows."""', ""])


def _python_header(docstring: str) -> list[str]:
    return [f"# {HEADER}", "# ruff: noqa", "# fmt: off", f'"""{docstring}"""', ""]


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _plural(name: str) -> str:
    """Return the name of a list: RunStatus, RUN_STATUSES."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
    return words + "ES" if words.endswith("S") else words[:-1] + "IES" if words.endswith("TY") else words + "S"


def _as_sorted(name: str) -> tuple[bool, str]:
    # As ruff sorts __all__: constants first.
    return (not name.isupper(), name)


def main() -> None:
    """Write every file."""
    target = Path(sys.argv[1])
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        constants = read_constants(connection)
    records = target / "openmanus_rl" / "records"
    written = {
        records / "statuses.py": statuses_module(constants),
        records / "kinds.py": kinds_module(constants),
        records / "codes.py": codes_module(constants),
        records / "rows.py": rows_module(constants),
        target / "supabase" / "functions" / "_shared" / "constants.ts": typescript_module(constants),
    }
    for path, text in written.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
