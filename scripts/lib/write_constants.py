"""Write what Python and TypeScript share with the database: python scripts/lib/write_constants.py FOLDER

Statuses, kinds, codes and the words that columns take are read from the database that DATABASE_URL names. Of the row
models, which the Supabase CLI has written to FOLDER before, those stay that are used.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psycopg

from openmanus_rl.records import MODELS

HEADER = "Written by scripts/generate_types from the migrations. Do not edit."

# What the words of a column are called. A CHECK that lists words and is not named here stops the generator.
CHOICES = {
    ("training_runs", "status"): "RunStatus",
    ("training_steps", "status"): "StepStatus",
    ("evaluations", "status"): "EvaluationStatus",
    ("rollouts", "status"): "RolloutStatus",
    ("jobs", "status"): "JobStatus",
    ("training_steps", "phase"): "StepPhase",
    ("evaluations", "kind"): "EvaluationKind",
    ("rollouts", "source"): "RolloutSource",
    ("media", "kind"): "MediaKind",
    ("validations", "verdict"): "Verdict",
    ("validation_overrides", "verdict"): "OverrideVerdict",
    ("training_runs", "visibility"): "Visibility",
    ("members", "role"): "MemberRole",
}


@dataclass(frozen=True)
class Constants:
    """What the database knows and others must know too."""

    choices: dict[tuple[str, str], list[str]]
    next_statuses: dict[str, dict[str, list[str]]]
    completed_rollout_statuses: list[str]
    record_kinds: list[str]
    error_codes: list[str]


def read_constants(connection: psycopg.Connection[tuple[object, ...]]) -> Constants:
    """Read them from a migrated database."""

    def column(query: str, *values: object) -> list[str]:
        return [str(row[0]) for row in connection.execute(query, values)]

    choices = _read_choices(connection)
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
        record_kinds=column("select kind from internal.record_kinds() order by place"),
        error_codes=column(
            "select distinct m[1] from pg_catalog.pg_proc p"
            " cross join lateral regexp_matches(p.prosrc, '''(OM\\d{3})''', 'g') m"
            " where p.pronamespace in ('public'::regnamespace, 'internal'::regnamespace) order by 1"
        ),
    )


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
    names = sorted(["COMPLETED_ROLLOUT_STATUSES", "NEXT_STATUSES", *CHOICES.values()], key=_as_sorted)
    lines = [
        *_python_header(
            "Statuses, where each may go, and the other words that columns take; the database enforces them."
        ),
        "from typing import Literal",
        "",
        f"__all__ = [{_quoted(names)}]",
        "",
        *(f"{CHOICES[key]} = Literal[{_quoted(words)}]" for key, words in constants.choices.items()),
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
        '__all__ = ["RECORD_KINDS", "RecordKind"]',
        "",
        f"RecordKind = Literal[{_quoted(constants.record_kinds)}]",
        "",
        f"RECORD_KINDS: tuple[RecordKind, ...] = ({_quoted(constants.record_kinds)})",
        '"""In the order in which they are written: parents before children."""',
        "",
    ]
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
        *((_plural(name), name, constants.choices[key]) for key, name in CHOICES.items()),
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


def used_models(text: str, record_kinds: Iterable[str]) -> str:
    """Return rows.py without the classes that nothing uses: the recorder takes those of kinds, the rest is named."""
    used = {*MODELS.values(), *("Public" + kind.title().replace("_", "") for kind in record_kinds)}
    head, *classes = re.split(r"^(?=class )", text, flags=re.MULTILINE)
    kept = [each.rstrip() for each in classes if re.match(r"class (\w+)", each)[1] in used]  # type: ignore[index]
    body = "\n\n".join(kept)
    missing = used - set(re.findall(r"^class (\w+)", body, flags=re.MULTILINE))
    if missing:
        sys.exit(f"no such tables: {sorted(missing)}")

    def imported(match: re.Match[str]) -> str:
        names = [name for name in re.findall(r"\w+", match[2]) if re.search(rf"\b{name}\b", body)]
        return f"from {match[1]} import {', '.join(names)}\n" if names else ""

    statement = r"^from (?!__future__)(\S+) import \(?([\w\s,]+?)\)?\n(?=from|import|\s*\n|$)"
    head = re.sub(statement, imported, head, flags=re.MULTILINE)
    return f"{head.rstrip()}\n\n\n{body}\n"


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
    rows = records / "rows.py"
    written = {
        records / "statuses.py": statuses_module(constants),
        records / "kinds.py": kinds_module(constants),
        records / "codes.py": codes_module(constants),
        rows: used_models(rows.read_text(), constants.record_kinds),
        target / "supabase" / "functions" / "_shared" / "constants.ts": typescript_module(constants),
    }
    for path, text in written.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
