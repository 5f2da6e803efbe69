"""The embedded stack: a Supabase of one's own, from wheels alone."""
