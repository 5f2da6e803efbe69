"""The migrations have clear names and end in the same grants, whatever a project grants by default."""

from __future__ import annotations

import re

from . import test_hygiene
from .servers import ROOT, Server, apply_migrations
from .writing import Database


def test_versions_are_14_digits_and_unique() -> None:
    names = [path.name for path in (ROOT / "supabase" / "migrations").iterdir()]
    assert len(names) >= 14
    versions = [match[1] for name in names if (match := re.fullmatch(r"(\d{14})_[a-z_]+\.sql", name))]
    assert len(versions) == len(names), "every file is <14 digits>_<subject>.sql"
    assert len(set(versions)) == len(versions)
    assert {"20241109000000_initial_schema.sql", "20241109000001_storage_buckets.sql"} <= set(names)


def test_a_project_that_grants_new_tables_to_everybody_ends_with_the_same_grants(server: Server) -> None:
    """As hosted projects did for years: whatever is granted by default is taken back."""
    url = server.create_database("generous", template="system")
    with Database(url).connect() as db:
        for objects in ("tables", "functions", "sequences"):
            db.execute(
                f"alter default privileges in schema public grant all on {objects} to anon, authenticated, service_role"
            )
        apply_migrations(url)
        test_hygiene.test_every_table_grants_what_is_meant_and_no_more(db)
        test_hygiene.test_no_function_is_everybodys_to_execute(db)
        test_hygiene.test_each_role_may_call_what_is_meant_for_it(db, "anon", test_hygiene.READERS)
        sequences = db.execute("select sequencename from pg_sequences where schemaname = 'public'").fetchall()
        assert sequences
        for found in sequences:
            usable = "select has_sequence_privilege('anon', %s, 'usage, select, update') as usable"
            assert db.execute(usable, [f"public.{found['sequencename']}"]).fetchone() == {"usable": False}
