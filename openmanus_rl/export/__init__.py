"""Exports records to Parquet and JSONL files, for analysis and as training data."""

from openmanus_rl.export.files import FORMATS, export_to_file, export_to_stream
from openmanus_rl.export.kinds import KINDS
from openmanus_rl.export.selection import Selection

__all__ = ["FORMATS", "KINDS", "Selection", "export_to_file", "export_to_stream"]
