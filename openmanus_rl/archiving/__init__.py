"""Moves turns and metric points of finished runs to Parquet files in storage, and back."""

from openmanus_rl.archiving.archiver import Archiver, Candidate
from openmanus_rl.archiving.manifest import Archived, ArchivedFile

__all__ = ["Archived", "ArchivedFile", "Archiver", "Candidate"]
