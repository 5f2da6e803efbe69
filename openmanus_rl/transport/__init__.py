"""All access to Supabase: the only importer of supabase and psycopg, whose errors are translated to our own."""
