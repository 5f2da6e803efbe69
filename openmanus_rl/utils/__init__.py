"""The integration guide's import paths; re-exports only."""
