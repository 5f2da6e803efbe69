"""What the gateway may do: no more than its settings need."""

from __future__ import annotations

from pathlib import Path

from openmanus_rl.local.assets import find_assets
from openmanus_rl.local.gateway_process import GatewayConfig, command, environment
from openmanus_rl.local.home import Home
from openmanus_rl.local.keys import new_keys


def config(**services: str) -> GatewayConfig:
    return GatewayConfig(
        home=Home(Path("home")),
        assets=find_assets(),
        deno="deno",
        keys=new_keys(),
        database_url="postgresql://x",
        postgres_port=5432,
        version="1",
        services=services,
    )


def network(of: GatewayConfig, action: str) -> list[str]:
    return [argument for argument in command(of, action, port=54321) if argument.startswith("--allow-net")]


def test_the_gateway_reaches_its_database_and_itself_only() -> None:
    assert network(config(), "init") == ["--allow-net=127.0.0.1:5432"]
    assert network(config(), "serve") == ["--allow-net=127.0.0.1:5432,127.0.0.1:54321"]


def test_the_internet_is_open_only_where_papers_are_imported() -> None:
    importing = config(FIRECRAWL_API_KEY="fc-1")

    assert network(importing, "serve") == ["--allow-net"]
    assert network(importing, "init") == ["--allow-net=127.0.0.1:5432"]
    assert environment(importing, port=1)["FIRECRAWL_API_KEY"] == "fc-1"
    assert "fc-1" not in repr(importing)
    assert "fc-1" not in " ".join(command(importing, "serve", port=1))
