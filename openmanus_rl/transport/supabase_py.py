"""supabase-py's own client, over the same HTTP connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openmanus_rl.transport.http import HttpClient
from openmanus_rl.transport.translate import translated

if TYPE_CHECKING:
    from supabase import Client as SupabaseClient

__all__ = ["SupabaseClient", "make_supabase_client"]


def make_supabase_client(url: str, key: str, *, http: HttpClient) -> SupabaseClient:
    """Return supabase-py's client; its calls raise supabase-py's own errors."""
    # Imported here: supabase-py is slow to import.
    from supabase import create_client
    from supabase.lib.client_options import SyncClientOptions

    with translated("make a Supabase client"):
        return create_client(url, key, SyncClientOptions(httpx_client=http.client, auto_refresh_token=False))
