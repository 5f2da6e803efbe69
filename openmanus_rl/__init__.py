"""The flight recorder of agentic RL: every run, rollout, turn and reward in one Postgres on Supabase."""

__version__ = "0.1.0"
