"""Imports JSONL files of other programs as rollouts of a run."""

from __future__ import annotations

from openmanus_rl.importing.importer import FORMATS, FileReport, Import

__all__ = ["FORMATS", "FileReport", "Import"]
