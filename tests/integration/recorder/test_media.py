"""Images, videos and checkpoint files arrive in storage, once each, whatever happens on the way."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import openmanus_rl
from openmanus_rl.connections import get_client
from openmanus_rl.delivery.courier import Courier
from openmanus_rl.delivery.destination import connect
from openmanus_rl.delivery.uploads import Uploads
from openmanus_rl.errors import OpenManusError
from openmanus_rl.media.blobs import BlobStore, blob_path, checkpoint_records, media_record
from openmanus_rl.media.content import Blob, Lifter, inline
from openmanus_rl.records.ids import checkpoint_id, new_id
from openmanus_rl.settings import load_settings
from openmanus_rl.spool.roots import spool_root
from openmanus_rl.spool.spools import Spool
from openmanus_rl.spool.writer import SpoolWriter

from . import faulty_server
from .conftest import Query, wait_until
from .faulty_server import Fault, FaultySupabase, Handler, faulty_supabase
from .test_recorder import script, start

pytestmark = pytest.mark.usefixtures("recorder_env")

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x05\x00\x00\x00\x07" + bytes(100)


class Recorded:
    """A run that is written as the recorder writes it."""

    def __init__(self, root: Path) -> None:
        self.writer = SpoolWriter(root, url="x", run_id="x")
        self.store = BlobStore(self.writer.folder)
        self.run_id, self.rollout_id = new_id(), new_id()
        status = {"status": "running", "status_change_id": new_id()}
        self.writer.append("training_runs", {"id": self.run_id, "name": "media", **status})
        rollout = {"id": self.rollout_id, "training_run_id": self.run_id, "environment": "e"}
        self.writer.append("rollouts", rollout)

    def log(self, data: Any, **fields: Any) -> str | None:
        record, path = media_record(self.store, data, run_id=self.run_id, **{"kind": "image"} | fields)
        if record is not None:
            self.writer.append("media", record)
        return path

    def log_checkpoint(self, number: int, file: Path, **fields: Any) -> str:
        row_id = checkpoint_id(self.run_id, number)
        record = {"id": row_id, "training_run_id": self.run_id, "checkpoint_number": number, **fields}
        for one in checkpoint_records(self.store, record, file):
            self.writer.append("model_checkpoints", one)
        return row_id

    def turn(self, number: int) -> str:
        turn_id = new_id()
        record = {"id": turn_id, "rollout_id": self.rollout_id, "step_number": number, "observation": "o"}
        self.writer.append("agent_states", record)
        return turn_id

    @property
    def spool(self) -> Spool:
        return Spool(self.writer.folder)

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.writer.folder / "blobs").glob("*"))


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path / "spools")


def courier_of(recorded: Recorded, **options: Any) -> Courier:
    settings = load_settings()
    return Courier(recorded.writer.folder.parent, connect=lambda: connect(settings), **options)


def stored(path: str | None, bucket: str = "media") -> bytes:
    assert path is not None
    return get_client().storage.download_bytes(bucket, path)


@pytest.fixture
def small_bucket(query: Query) -> Iterator[int]:
    """The bucket for media takes no more than this many bytes."""
    limit = 300_000
    query("update storage.buckets set file_size_limit = %s where id = 'media' returning 1", limit)
    yield limit
    query("update storage.buckets set file_size_limit = 500 * 1024 * 1024 where id = 'media' returning 1")


def test_an_image_of_ten_turns_is_stored_once_and_named_by_all(recorded: Recorded, query: Query) -> None:
    turns = [recorded.turn(number) for number in range(10)]
    paths = {recorded.log(PNG, rollout_id=recorded.rollout_id, agent_state_id=turn, kind="frame") for turn in turns}
    assert len(recorded.files()) == 1
    courier = courier_of(recorded, batch_bytes=1500)
    courier.deliver()
    digest = hashlib.sha256(PNG).hexdigest()
    assert paths == {f"{recorded.run_id}/{digest}.png"}
    rows = query("select * from media where training_run_id = %s", recorded.run_id)
    assert {str(row["agent_state_id"]) for row in rows} == set(turns)
    assert {(row["path"], row["checksum"], row["kind"]) for row in rows} == {(paths.pop(), digest, "frame")}
    (row, *_) = rows
    assert (row["content_type"], row["size_bytes"], row["width"], row["height"]) == ("image/png", len(PNG), 5, 7)
    assert stored(row["path"]) == PNG
    found = query("select count(*) as n from storage.objects where name like %s", f"{recorded.run_id}/%")
    assert found == [{"n": 1}]
    assert (recorded.spool.progress.refused, recorded.files()) == (0, [])
    # Kept before, its file has gone: a courier that knows nothing of that finds it in storage.
    recorded.log(PNG)
    assert recorded.files() == []
    courier._uploads = Uploads()
    courier.deliver()
    assert query("select count(*) as n from media where training_run_id = %s", recorded.run_id) == [{"n": 11}]
    recorded.writer.close()
    courier.deliver()
    assert not recorded.writer.folder.exists()


def test_a_training_loop_records_images_videos_chats_and_checkpoints(query: Query, tmp_path: Path) -> None:
    pixels = numpy.arange(60, dtype="uint8").reshape(4, 5, 3)
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    chat = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]
    video = b"\x00\x00\x00\x20ftypisom" + bytes(50)
    (tmp_path / "model.pt").write_bytes(b"weights")
    with start() as run:
        with run.rollout() as rollout:
            for _ in range(3):
                rollout.log_turn(observation="o", images=[{"image": pixels, "kind": "frame"}], messages=chat)
            path = rollout.log_media(video, kind="video")
            run.log_checkpoint(3, step=30, file=tmp_path / "model.pt")
        assert run.flush(timeout_seconds=30), run.stats
        odd = [b"", "missing.png", numpy.array([None]), numpy.zeros((0, 0)), Unspeakable()]
        for image in odd:
            rollout.log_turn(images=[image])
            assert rollout.log_media(image) is None
        assert not run.flush(timeout_seconds=30)
        assert (run.stats.rejected, run.stats.lost) == (2 * len(odd), 0)
    rows = query("select kind, path from media where rollout_id = %s order by id", rollout.id)
    assert [row["kind"] for row in rows] == ["frame", "image", "frame", "frame", "video"]
    assert stored(rows[1]["path"]) == PNG
    assert len({row["path"] for row in rows}) == 3
    assert query("select video_path from rollouts where id = %s", rollout.id) == [{"video_path": path}]
    assert stored(path) == video
    (checkpoint,) = query("select storage_path, step from model_checkpoints where training_run_id = %s", run.id)
    assert checkpoint == {"storage_path": f"{run.id}/checkpoint_3.pt", "step": 30}
    assert stored(checkpoint["storage_path"], "model-checkpoints") == b"weights"


class Unspeakable:
    shape = (2, 2)

    def __array__(self) -> Any:
        raise RuntimeError("no array")


def test_a_picture_that_stands_alone_is_taken_as_it_is(query: Query) -> None:
    frame = numpy.zeros((4, 4, 3), dtype=numpy.uint8)
    with openmanus_rl.init(name="alone", environment="e") as run:
        rollout = run.rollout()
        turn_id = rollout.log_turn(images=frame)
        rollout.complete()
        assert run.flush(timeout_seconds=30), run.stats
    (found,) = query("select kind, width, height from media where agent_state_id = %s", turn_id)
    assert found == {"kind": "image", "width": 4, "height": 4}


def test_many_files_arrive_in_batches_and_each_is_equal(recorded: Recorded, query: Query) -> None:
    contents = [f"content {number}".encode() * 50 for number in range(150)]
    paths = [recorded.log(content, kind="file") for content in contents]
    recorded.writer.close()
    batches: list[int] = []
    courier_of(recorded).deliver(on_progress=lambda _spool, lines: batches.append(lines))
    assert len(batches) == 3
    assert query("select count(*) as n from media where training_run_id = %s", recorded.run_id) == [{"n": 150}]
    assert [stored(paths[number]) for number in (0, 77, 149)] == [contents[number] for number in (0, 77, 149)]
    assert not recorded.writer.folder.exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from openmanus_rl.recorder.recording import Recording
from openmanus_rl.media.blobs import BlobStore, checkpoint_records, media_record
from openmanus_rl.records.ids import new_id
from openmanus_rl.settings import load_settings
run_id = new_id()
recording = Recording(load_settings(), run_id=run_id)
store = BlobStore(recording._writer.folder)
recording.append("training_runs", {"id": run_id, "name": "killed"})
for number in range(5):
    recording.append("media", media_record(store, b"frame %d" % number, run_id=run_id, kind="frame")[0])
Path("model.pt").write_bytes(b"weights")
row = {"id": new_id(), "training_run_id": run_id, "checkpoint_number": 3}
for record in checkpoint_records(store, row, "model.pt"):
    recording.append("model_checkpoints", record)
Path("model.pt").unlink()
print(run_id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_had_recorded_arrives(query: Query, tmp_path: Path) -> None:
    process = script(KILLED, cwd=tmp_path)
    run_id = process.communicate()[0].strip()
    assert process.returncode == -signal.SIGKILL
    root = spool_root(load_settings())
    wait_until(lambda: not any(root.glob("*/meta.json")))
    paths = [row["path"] for row in query("select path from media where training_run_id = %s order by id", run_id)]
    assert [stored(path) for path in paths] == [b"frame %d" % number for number in range(5)]
    (row,) = query("select * from model_checkpoints where training_run_id = %s", run_id)
    assert (row["storage_path"], row["size_bytes"]) == (f"{run_id}/checkpoint_3.pt", 7)
    assert row["checksum"] == hashlib.sha256(b"weights").hexdigest()
    assert stored(row["storage_path"], "model-checkpoints") == b"weights"


@pytest.fixture
def server(stack: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultySupabase]:
    """A Supabase whose storage can be made to fail; records arrive, whichever way they go."""
    with faulty_supabase(stack.url, "/storage/") as state:
        monkeypatch.setenv("SUPABASE_URL", state.url)
        monkeypatch.setenv("OPENMANUS_RL_REQUEST_TIMEOUT_SECONDS", "1")
        yield state


def no_connection(handler: Handler, _body: bytes) -> None:
    handler.close_connection = True


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (faulty_server.too_many, "too many requests"),
        (faulty_server.broken, "out of order"),
        (faulty_server.half_an_answer, "upload media/"),
        (no_connection, "upload media/"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_failing_storage_costs_time_and_nothing_else(
    server: FaultySupabase, recorded: Recorded, query: Query, fault: Fault, told: str
) -> None:
    paths = [recorded.log(content) for content in (b"a", b"b")]
    server.fault = fault
    courier = courier_of(recorded)
    with pytest.raises(OpenManusError):
        courier.deliver()
    progress = recorded.spool.progress
    assert (progress.taken, progress.refused, len(recorded.files())) == (0, 0, 2)
    assert told in (progress.error or "")
    server.fault = None
    courier.deliver()
    progress = recorded.spool.progress
    assert (progress.taken, progress.refused, progress.error, recorded.files()) == (4, 0, None, [])
    rows = query("select path from media where training_run_id = %s", recorded.run_id)
    assert [row["path"] for row in rows] == paths
    assert stored(paths[1]) == b"b"


def test_over_http_alone_files_arrive_too(recorded: Recorded, query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    path = recorded.log(PNG)
    odd = recorded.log(b"odd", content_type="bild/ü\n")
    courier_of(recorded).deliver()
    assert stored(path) == PNG
    assert stored(odd) == b"odd"
    assert query("select path from media where training_run_id = %s", recorded.run_id) == [
        {"path": path},
        {"path": odd},
    ]


@pytest.mark.usefixtures("small_bucket")
def test_what_is_over_the_limit_is_refused_alone_and_can_be_sent_again(
    recorded: Recorded, query: Query, cli: Any, recorder_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openmanus_rl.delivery.uploads._ASK_FIRST_BYTES", 400_000)
    large = os.urandom(350_000)  # told to be too large by the server
    larger = os.urandom(450_000)  # and this one before it is sent
    paths = [recorded.log(content) for content in (PNG, large, larger, b"small")]
    turn = recorded.turn(0)
    recorded.writer.close()
    courier_of(recorded).deliver()
    assert query("select id::text from agent_states where rollout_id = %s", recorded.rollout_id) == [{"id": turn}]
    assert [stored(path) for path in (paths[0], paths[3])] == [PNG, b"small"]
    by_path = {entry["record"]["path"]: entry for entry in recorded.spool.refused()}
    assert set(by_path) == {paths[1], paths[2]}
    assert "upload media/" in by_path[paths[1]]["message"]
    assert "439.5 KB is over the limit of the bucket media, 293 KB" in by_path[paths[2]]["message"]
    assert len(recorded.files()) == 2

    query("update storage.buckets set file_size_limit = 1000000 where id = 'media' returning 1")
    root = spool_root(load_settings())
    root.mkdir(parents=True)
    recorded.writer.folder.rename(root / recorded.writer.folder.name)
    answer = cli("sync", "--refused", "--json", env=recorder_env, cwd=root)
    assert '"resent": 2' in answer.stdout, answer.stdout + answer.stderr
    assert [stored(path) for path in paths] == [PNG, large, larger, b"small"]
    assert query("select count(*) as n from media where training_run_id = %s", recorded.run_id) == [{"n": 4}]
    assert cli("sync", env=recorder_env, cwd=root).returncode == 0
    assert not (root / recorded.writer.folder.name).exists()


def test_a_file_that_is_gone_or_damaged_is_refused_with_the_reason(recorded: Recorded, query: Query) -> None:
    gone, damaged, path = (recorded.log(content) for content in (b"gone", b"damaged", b"whole"))
    folder = recorded.writer.folder
    blob_path(folder, str(gone).rpartition("/")[2]).unlink()
    blob_path(folder, str(damaged).rpartition("/")[2]).write_bytes(b"")
    recorded.log(b"")
    recorded.writer.append("media", {"id": new_id(), "training_run_id": recorded.run_id, "_blob": "../meta.json"})
    courier_of(recorded).deliver()
    assert query("select path from media where training_run_id = %s", recorded.run_id) == [{"path": path}]
    reasons = [entry["message"] for entry in recorded.spool.refused()]
    assert len(reasons) == recorded.spool.progress.refused == 4
    for part in ("is gone, and storage does not have it", "another SHA-256", "0 bytes", "names no file"):
        assert sum(part in reason for reason in reasons) == 1, part


def test_a_refused_record_keeps_its_file_until_it_is_taken(recorded: Recorded, query: Query) -> None:
    late = new_id()
    path = recorded.log(PNG, rollout_id=late)
    courier = courier_of(recorded)
    courier.deliver()
    assert [entry["code"] for entry in recorded.spool.refused()] == ["OM404"]
    recorded.writer.close()
    courier.deliver()
    assert len(recorded.files()) == 1
    query(
        "insert into rollouts (id, training_run_id, environment) values (%s, %s, 'e') returning 1",
        late,
        recorded.run_id,
    )
    courier_of(recorded).deliver()
    assert query("select path from media where rollout_id = %s", late) == [{"path": path}]
    assert not recorded.writer.folder.exists()


def test_the_pictures_of_a_chat_come_back_from_storage(recorded: Recorded) -> None:
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    lifted, found = Lifter(recorded.run_id).lift(message)
    for blob in found:
        assert isinstance(blob, Blob)
        recorded.log(blob, rollout_id=recorded.rollout_id)
    courier_of(recorded).deliver()
    assert inline([lifted], stored) == [message]


def test_a_checkpoints_file_arrives_and_a_later_one_replaces_it(
    recorded: Recorded, query: Query, tmp_path: Path
) -> None:
    file = tmp_path / "latest.tar.gz"
    file.write_bytes(b"first")
    row_id = recorded.log_checkpoint(3, file, step=30, metrics={"loss": 0.5})
    file.write_bytes(b"second")
    recorded.log_checkpoint(3, file)
    recorded.log_checkpoint(4, tmp_path / "missing.pt", step=40)
    courier_of(recorded).deliver()
    (row, other) = query(
        "select * from model_checkpoints where training_run_id = %s order by checkpoint_number", recorded.run_id
    )
    assert (str(row["id"]), row["step"], row["metrics"]) == (row_id, 30, {"loss": 0.5})
    assert (row["storage_path"], row["size_bytes"]) == (f"{recorded.run_id}/checkpoint_3.tar.gz", 6)
    assert row["checksum"] == hashlib.sha256(b"second").hexdigest()
    assert stored(row["storage_path"], "model-checkpoints") == b"second"
    # What is known of it is there, only where its file is, nobody can say.
    assert (other["step"], other["storage_path"]) == (40, None)
    assert ["no such file" in entry["message"] for entry in recorded.spool.refused()] == [True]
    assert recorded.files() == []
