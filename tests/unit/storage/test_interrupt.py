"""Ctrl-C during an upload of datasets: what was done is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "upload_datasets.py"


class StuckStorage(BaseHTTPRequestHandler):
    """Holds no file, stores one, and never answers about the second."""

    def do_GET(self) -> None:
        self._answer(404, {"statusCode": "404", "error": "not_found", "message": "Object not found"})

    def do_POST(self) -> None:
        server: Any = self.server
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("a.json"):
            self._answer(200, {"Key": "datasets/alfworld/a.json"})
        else:
            server.stuck.set()
            server.released.wait()

    def _answer(self, status: int, body: dict[str, str]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def storage() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), StuckStorage)
    server.stuck, server.released = threading.Event(), threading.Event()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("command", [[str(SCRIPT)], ["-m", "openmanus_rl", "datasets", "upload"]])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_ctrl_c_tells_what_was_done_and_exits_130(
    storage: Any, tmp_path: Path, command: list[str], options: list[str]
) -> None:
    (tmp_path / "data" / "alfworld").mkdir(parents=True)
    for name in ("a", "b", "c"):
        (tmp_path / "data" / "alfworld" / f"{name}.json").write_text("{}")
    env = os.environ | {
        "SUPABASE_URL": f"http://127.0.0.1:{storage.server_port}",
        "SUPABASE_SERVICE_ROLE_KEY": "sb_secret_0123456789abcdef",
        "OPENMANUS_RL_HOME": str(tmp_path / "home"),
    }
    process = subprocess.Popen(
        [sys.executable, *command, *options],
        cwd=tmp_path,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert storage.stuck.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()

    assert process.returncode == 130, err
    assert "Traceback" not in err
    if options:
        report = json.loads(out)
        assert [file["status"] for file in report["files"]] == ["uploaded", "not done", "not done"]
        assert report["counts"] == {"uploaded": 1, "not done": 2}
    else:
        assert "1 uploaded, 2 not done" in out
        assert "interrupted; run the command again to continue" in err
