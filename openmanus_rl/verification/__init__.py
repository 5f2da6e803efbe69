"""Verification of answers: deterministic validators, and scoring again with a new version of one."""
