"""Pictures of environments are drawn by the orchestrator, whatever the code of an environment does."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from openmanus_rl.jobs.previews import draw, draw_missing_previews
from openmanus_rl.managers.environments import EnvironmentManager
from openmanus_rl.records.ids import new_id

from ..conftest import Query

pytest.importorskip("openmanus_rl.environments")


@pytest.mark.usefixtures("_stack_settings")
def test_an_environment_without_a_picture_is_drawn_once(query: Query) -> None:
    drawn, broken = (EnvironmentManager.save_environment(new_id(), kind=kind, spec=spec) for kind, spec in [
        ("grid", {"map": ["A..G"]}), ("gymnasium", {"id": "NoSuchEnvironment-v0"}),
    ])  # fmt: skip

    while draw_missing_previews():
        pass

    def preview_of(environment_id: str) -> tuple[str | None, str | None]:
        (row,) = query("select * from public.environment_versions where environment_id = %s", environment_id)
        return row["preview"], row["preview_error"]

    picture, error = preview_of(drawn["id"])
    assert picture is not None
    assert picture.startswith("data:image/png;base64,iVBOR")
    assert error is None
    picture, error = preview_of(broken["id"])
    assert picture is None
    assert "NoSuchEnvironment" in (error or "")


@pytest.mark.parametrize(
    ("code", "seconds", "reason"),
    [
        ("import time; time.sleep(60)", 3, "it was not drawn within 3 s"),
        ("import os; os._exit(7)", 60, "exit code 7"),
        ("import os; raise ValueError(os.environ.get('SUPABASE_SERVICE_ROLE_KEY', 'no key'))", 60, "no key"),
    ],
)
def test_the_code_of_an_environment_is_limited_in_time_and_sees_no_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, seconds: float, reason: str
) -> None:
    (tmp_path / "hostile.py").write_text(textwrap.dedent(code))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", "sb_secret_key")

    picture, error = draw({"kind": "gymnasium", "entry_point": "hostile:Environment"}, seconds=seconds)

    assert picture is None
    assert reason in (error or "")
