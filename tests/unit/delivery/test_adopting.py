"""Spools from elsewhere are taken over whole, whatever happens there meanwhile."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from openmanus_rl.delivery.adopting import adopt, spools_in
from openmanus_rl.delivery.courier import Courier
from openmanus_rl.delivery.reading import SpoolReader
from openmanus_rl.errors import InvalidInput, LocalFileError
from openmanus_rl.records.ids import new_id
from openmanus_rl.spool.files import Position, lock_file
from openmanus_rl.spool.spools import Spool, find_spools
from openmanus_rl.spool.writer import SpoolWriter


class Taker:
    """Takes everything."""

    storage: Any = None

    def load(self, _batch: Any) -> list[dict[str, Any]]:
        return []

    def interrupt(self, _entries: Any, _reason: str) -> None:
        pass


def numbers_in(spool: Spool) -> list[int]:
    """Return the numbers of the records that are still to be delivered; a line that is not whole is an error."""
    reader = SpoolReader(spool.folder, spool.progress.position)
    found: list[int] = []
    while (batch := reader.read(1_000_000)) is not None:
        assert batch.damaged == 0
        found += [record["number"] for record in batch.records["rollouts"]]
    return found


def test_a_spool_that_is_written_and_delivered_meanwhile_is_copied_without_gaps(tmp_path: Path) -> None:
    root = tmp_path / "there"
    writer = SpoolWriter(root, url="x", run_id="x", segment_bytes=2_000)
    stop = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            writer.append("rollouts", {"id": new_id(), "number": written, "text": "y" * (written % 500)})
            written += 1
            time.sleep(0.0005)

    def deliver() -> None:
        courier = Courier(root, connect=Taker, batch_bytes=5_000)
        while not stop.is_set():
            courier.deliver()
            time.sleep(0.002)

    threads = [threading.Thread(target=write), threading.Thread(target=deliver)]
    for thread in threads:
        thread.start()
    try:
        for number in range(20):
            before = written
            here = tmp_path / f"here {number}"
            (spool,) = spools_in(root)
            assert adopt(spool, here)
            (copy,) = find_spools(here)
            numbers = numbers_in(copy)
            assert numbers == list(range(copy.progress.taken, copy.progress.taken + len(numbers)))
            # All that was there when it was begun is in it, or had been delivered.
            assert copy.progress.taken + len(numbers) >= before
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        writer.close()


def test_a_copy_grows_with_what_it_was_copied_from(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "there", url="x", run_id="x", segment_bytes=100)
    here = tmp_path / "here"
    for number in range(6):
        writer.append("rollouts", {"id": new_id(), "number": number})
        (spool,) = spools_in(tmp_path / "there")
        assert adopt(spool, here)
        assert not adopt(spool, here)
        (copy,) = find_spools(here)
        assert numbers_in(copy) == list(range(number + 1))
        copy.add_refused([{"kind": "rollouts", "record": {"number": -number}, "places": [number], "code": "OM400"}])
    assert [entry["places"] for entry in copy.refused()] == [[number] for number in range(6)]
    # Half a line is nothing more, and the spool itself is no copy.
    with (writer.folder / "000001.jsonl").open("ab") as file:
        file.write(b"[")
    assert not adopt(spool, here)
    assert not adopt(spool, tmp_path / "there")
    writer.close()


def test_an_earlier_copy_that_is_being_delivered_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openmanus_rl.delivery.adopting._PATIENCE_SECONDS", 0.2)
    writer = SpoolWriter(tmp_path / "there", url="x", run_id="x")
    writer.append("rollouts", {"id": new_id(), "number": 0})
    (spool,) = spools_in(tmp_path / "there")
    assert adopt(spool, tmp_path / "here")
    (copy,) = find_spools(tmp_path / "here")
    writer.append("rollouts", {"id": new_id(), "number": 1})
    lock = lock_file(copy.folder / "courier.lock")
    with pytest.raises(LocalFileError, match="another process delivers an earlier copy"):
        adopt(spool, tmp_path / "here")
    threading.Timer(0.1, os.close, [lock]).start()
    assert adopt(spool, tmp_path / "here")
    assert numbers_in(copy) == [0, 1]
    writer.close()


def test_a_renamed_copy_gives_the_same_chunks_of_metrics(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "there", url="x", run_id="x")
    for step in range(3):
        writer.append("metrics", {"run": "r", "step": step, "values": {"loss": 0.5}})
    writer.close()
    original = SpoolReader(writer.folder, Position(1, 0)).read(10_000)
    renamed = writer.folder.rename(tmp_path / "copy of a spool")
    (spool,) = spools_in(renamed)
    assert adopt(spool, tmp_path / "here")
    (copy,) = find_spools(tmp_path / "here")
    again = SpoolReader(copy.folder, Position(1, 0)).read(10_000)
    assert original is not None
    assert again is not None
    assert again.records == original.records


def test_what_is_no_spool_or_leads_elsewhere_is_left_alone(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("nobody else's business")
    writer = SpoolWriter(tmp_path / "there", url="x", run_id="x")
    (writer.folder / "blobs").mkdir()
    (writer.folder / "blobs" / "name").symlink_to(secret)
    for name, spool_id in {"a": "../../outside", "b": 5, "c": None}.items():
        folder = tmp_path / "there" / name
        folder.mkdir()
        (folder / "meta.json").write_bytes(orjson.dumps({"spool_id": spool_id}))
    (spool,) = spools_in(tmp_path / "there")
    assert adopt(spool, tmp_path / "here")
    assert not adopt(spool, tmp_path / "here")
    (copy,) = find_spools(tmp_path / "here")
    assert list((copy.folder / "blobs").iterdir()) == []
    with pytest.raises(InvalidInput, match="no such folder"):
        spools_in(tmp_path / "nowhere")
    writer.close()
