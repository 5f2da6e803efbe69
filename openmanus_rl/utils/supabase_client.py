"""The integration guide's import path of `get_supabase`."""

from openmanus_rl.connections import get_supabase

__all__ = ["get_supabase"]
