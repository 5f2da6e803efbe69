"""All network access: the only importer of supabase, httpx and psycopg, whose errors are translated to our own."""
