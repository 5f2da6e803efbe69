"""Imports files, one after the other, into one run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

from openmanus_rl.delivery.batches import Load
from openmanus_rl.errors import InvalidInput
from openmanus_rl.importing.chat_lines import ChatLines
from openmanus_rl.importing.identity import Naming
from openmanus_rl.importing.lines import BadLine, Line, LineError, LineFile, is_stream
from openmanus_rl.importing.step_lines import StepLines
from openmanus_rl.importing.writing import BATCH_BYTES, BatchWriter
from openmanus_rl.transport.retry import RetryPolicy

__all__ = ["FORMATS", "FileReport", "Import", "Listener", "RefusedLine", "check_files"]

FORMATS: dict[str, type[StepLines] | type[ChatLines]] = {format_.name: format_ for format_ in (StepLines, ChatLines)}
"""The formats that can be read, by name."""

_KEPT_REFUSALS = 100
_LINES_PER_NEWS = 64
_LINES_LOOKED_AT = 100


@dataclass(frozen=True)
class RefusedLine:
    """A line that was refused, at least in part, and why."""

    line: int
    reason: str


@dataclass
class FileReport:
    """The result of importing a file."""

    path: str
    format: str | None = None
    lines: int = 0
    rollouts: int = 0
    turns: int = 0
    refused: int = 0
    """How many lines were refused; the reasons of the first ones are below."""
    refusals: list[RefusedLine] = field(default_factory=list)

    def refuse(self, line_number: int, reason: str) -> None:
        """Count a refused line."""
        self.refused += 1
        if len(self.refusals) < _KEPT_REFUSALS:
            self.refusals.append(RefusedLine(line_number, reason))


class Listener(Protocol):
    """Receives the progress of an import."""

    def recognised(self, report: FileReport) -> None:
        """The format of a file was detected."""

    def moved(self, path: str, read_bytes: int) -> None:
        """This many bytes of a file have been read."""


class Import:
    """Imports files into a run; the report of each file is updated meanwhile."""

    def __init__(
        self,
        load: Load,
        *,
        run_id: str,
        format_name: str | None = None,
        environment: str | None = None,
        listener: Listener | None = None,
        batch_bytes: int = BATCH_BYTES,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.reports: list[FileReport] = []
        self.environments: set[str] = set()
        """The environments of the imported rollouts."""
        self._load = load
        self._run_id = run_id
        self._format_name = format_name
        self._environment = environment
        self._listener = listener
        self._batch_bytes = batch_bytes
        self._retry = retry
        self._naming = Naming(run_id)

    def add_file(self, path: str) -> FileReport:
        """Import a file and return its report."""
        report = FileReport(path)
        self.reports.append(report)
        writer = BatchWriter(self._load, on_refused=report.refuse, batch_bytes=self._batch_bytes, retry=self._retry)
        try:
            with LineFile(path) as file:
                self._add_lines(file, report, writer)
        finally:
            # Also if interrupted, to report how far the import got.
            report.rollouts, report.turns = writer.written["rollouts"], writer.written["agent_states"]
        return report

    def _add_lines(self, file: LineFile, report: FileReport, writer: BatchWriter) -> None:
        reader: StepLines | ChatLines | None = None
        for line in self._told(file):
            report.lines += 1
            if isinstance(line, BadLine):
                report.refuse(line.number, line.reason)
                continue
            if reader is None:
                reader = self._open_reader(line, report, writer)
            writer.begin_line(len(line.text))
            try:
                reader.add(line)
            except LineError as error:
                report.refuse(line.number, str(error))
        writer.flush()
        if reader is not None:
            reader.finish()
            writer.flush()
            self.environments |= reader.environments

    def _told(self, file: LineFile) -> Iterator[Line | BadLine]:
        for number, line in enumerate(file):
            yield line
            if self._listener is not None and number % _LINES_PER_NEWS == 0:
                self._listener.moved(file.path, file.read_bytes)
        if self._listener is not None:
            self._listener.moved(file.path, file.read_bytes)

    def _open_reader(self, line: Line, report: FileReport, writer: BatchWriter) -> StepLines | ChatLines:
        report.format = self._format_name or _recognise(report.path, line)
        if self._listener is not None:
            self._listener.recognised(report)
        return FORMATS[report.format](
            writer,
            run_id=self._run_id,
            naming=self._naming,
            file_number=len(self.reports),
            environment=self._environment,
        )


def _recognise(path: str, line: Line) -> str:
    for name, format_ in FORMATS.items():
        if format_.recognises(line.value):
            return name
    fields = ", ".join(list(line.value)[:10]) or "nothing"
    raise InvalidInput(
        f"{path}: line {line.number} is neither a step (env_id, step, action) nor a conversation (messages, "
        f"conversations, prompt and completion); it has {fields}",
        field="format",
        hint="if it is one of these nevertheless, say so with --format",
    )


def check_files(paths: list[str], *, format_name: str | None) -> None:
    """Raise an error for files that are given twice, can't be opened or have an unknown format."""
    names: set[str] = set()
    for path in paths:
        name = path if path == "-" else str(Path(path).resolve())
        if name in names:
            raise InvalidInput(f"{path}: it is given twice", field="file", hint="give each file once")
        names.add(name)
        if is_stream(path):
            continue
        with LineFile(path) as file:
            first = next((line for line in islice(file, _LINES_LOOKED_AT) if isinstance(line, Line)), None)
            if first is not None and format_name is None:
                _recognise(path, first)
