"""The only importer of supabase, httpx and psycopg: one door to the network, and our own errors out."""
