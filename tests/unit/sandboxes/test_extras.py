"""Libraries of environments are imported when they are needed, and missing ones are named with their extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.sandboxes.base import SandboxError
from openmanus_rl.sandboxes.providers import available_kinds, provision, take_back_all

SPECS: dict[str, dict[str, Any]] = {
    "docker": {"services": {"main": {"image": "x"}}},
    "openenv": {"url": "http://127.0.0.1:9"},
    "gymnasium": {"id": "CartPole-v1"},
}


@pytest.mark.parametrize("kind", SPECS)
def test_a_missing_library_is_named_with_its_extra(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == kind] + [kind]:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(SandboxError, match=rf'pip install "openmanus-rl\[{kind}\]"'):
        provision({"kind": kind, **SPECS[kind]}, rollout_id="r", owner="o", folder=tmp_path)
    assert kind not in available_kinds()
    assert take_back_all(lambda _: True) == []


def test_the_providers_do_not_import_the_libraries() -> None:
    modules = ", ".join(f"openmanus_rl.sandboxes.{name}" for name in ("providers", "docker", "openenv", "gymnasium"))
    check = f"import sys, {modules}; print({set(SPECS)!r} & set(sys.modules))"

    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout == "set()\n"
