"""Agents that work on the tasks of rollouts."""
