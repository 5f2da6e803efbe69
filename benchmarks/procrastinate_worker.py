"""A worker of procrastinate: `python procrastinate_worker.py DATABASE_URL JOBS_AT_ONCE`."""

from __future__ import annotations

import asyncio
import sys

from procrastinate import App, PsycopgConnector


def make_app(database_url: str, *, connections: int) -> App:
    """Return an app with one task, which does nothing."""
    app = App(connector=PsycopgConnector(conninfo=database_url, min_size=connections, max_size=connections))

    @app.task(name="noop")
    async def noop() -> None:
        pass

    return app


def make_schema(database_url: str) -> None:
    """Make the tables of procrastinate."""

    async def make() -> None:
        async with make_app(database_url, connections=1).open_async() as app:
            await app.schema_manager.apply_schema_async()

    asyncio.run(make())


async def work(database_url: str, at_once: int) -> None:
    """Work until it is interrupted."""
    # One more to fetch jobs, one that listens.
    async with make_app(database_url, connections=at_once + 2).open_async() as app:
        await app.run_worker_async(concurrency=at_once)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
