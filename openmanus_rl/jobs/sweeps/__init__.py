"""Sweeps: what the next trial is, which trials end early, what mattered; and the driver that makes the trials."""
