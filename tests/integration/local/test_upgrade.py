"""Data that an older major version of Postgres wrote is brought along, and the old data is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from openmanus_rl.local import cluster, upgrade
from openmanus_rl.local.account import account_for, allow_traversal, change_owner
from openmanus_rl.local.cluster import Binaries
from openmanus_rl.local.home import Home

STATEMENTS = [
    "create role reader login password 'theirs'",
    # Text that looks like the one statement of a dump that is left out.
    r"create table public.kept as select n as id, E'a\tb\nCREATE ROLE postgres;\n' as text"
    " from generate_series(1, 5000) n",
    "alter table public.kept add primary key (id)",
    "grant select on public.kept to reader",
    "create database another",
]


def make_old(home: Home, old: Binaries) -> None:
    """Make a home as an older version left it: a database of that Postgres with something in it."""
    home.prepare()
    account = account_for(home.postgres)
    home.postgres.mkdir(mode=0o700)
    allow_traversal(home.postgres, account)
    allow_traversal(old.folder / "initdb", account)
    change_owner(home.postgres, account)
    options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]
    made = cluster.run_as([old["initdb"], f"--pgdata={home.postgres}", *options], account=account)
    assert made.returncode == 0, made.stderr
    single = [old["postgres"], "--single", "-j", "-D", str(home.postgres), "postgres"]
    for statement in STATEMENTS:
        done = cluster.run_as(single, account=account, stdin=f"{statement};\n\n")
        assert done.returncode == 0, done.stderr
        assert "ERROR" not in done.stderr, done.stderr


def test_up_brings_the_data_of_an_older_postgres_along(fresh_home: Any) -> None:
    old = upgrade.find_binaries(15) or upgrade.find_binaries(16)  # The system's, or the one that the wheel has.
    assert old is not None
    major, home = old.major, Home(fresh_home.root)
    make_old(home, old)
    (home.root / "postgres.upgraded").mkdir()  # The last start was killed before the two changed places.

    report = fresh_home.up()

    assert [note for note in report["notes"] if f"from Postgres {major} to 18" in note]
    with psycopg.connect(report["DATABASE_URL"]) as connection:
        assert connection.execute("select count(*), min(text) from public.kept").fetchone() == (
            5000,
            "a\tb\nCREATE ROLE postgres;\n",
        )
        assert connection.execute("select has_table_privilege('reader', 'public.kept', 'select')").fetchone() == (True,)
        assert connection.execute("select count(*) from public.training_runs").fetchone() == (0,)
        assert connection.execute("select count(*) from pg_database where datname = 'another'").fetchone() == (1,)
    aside = home.root / f"postgres-{major}"
    assert (aside / "PG_VERSION").read_text().strip() == str(major)
    assert not (home.root / "postgres.upgraded").exists()
    assert fresh_home.run("down").returncode == 0


def test_new_data_that_was_ready_when_a_start_was_killed_takes_its_place(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "postgres.upgraded").mkdir()
    (tmp_path / "postgres.upgraded" / "PG_VERSION").write_text("18\n")
    upgrade.finish_interrupted_upgrade(home)
    assert cluster.written_by(home) == 18
    assert not (tmp_path / "postgres.upgraded").exists()


def test_a_copy_that_fails_leaves_the_old_data_in_its_place(fresh_home: Any) -> None:
    old = upgrade.find_binaries(16)
    assert old is not None, "the wheel has it"
    home = Home(fresh_home.root)
    make_old(home, old)
    # Without its control file the old server does not start.
    (home.postgres / "global" / "pg_control").rename(home.postgres / "global" / "away")
    done = fresh_home.run("up", "--detach", "--port", "0")
    assert done.returncode == 1
    assert "was not changed" in done.stderr
    assert cluster.written_by(home) == 16
    left = [path.name for path in home.root.iterdir() if path.name.startswith((".postgres", "postgres."))]
    assert left == []
