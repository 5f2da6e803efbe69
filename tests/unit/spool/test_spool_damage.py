"""What something else has done to a spool's files is counted, told and kept; what can be read is delivered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmanus_rl.delivery.courier import Courier
from openmanus_rl.records.ids import new_id
from openmanus_rl.spool.spools import Spool, find_spools
from openmanus_rl.spool.writer import SpoolWriter


class Taker:
    """Takes everything, and remembers the ids."""

    def __init__(self) -> None:
        self.ids: list[Any] = []

    def load(self, batch: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        self.ids += [record["id"] for record in batch.get("rollouts", ())]
        return []


def write_five(root: Path) -> SpoolWriter:
    """Write five records, one a segment."""
    writer = SpoolWriter(root, url="x", run_id=new_id(), segment_bytes=1)
    for number in range(1, 6):
        writer.append("rollouts", {"id": number})
    return writer


def flip(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"id":', b'"id"\0'))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def other_json(path: Path) -> None:
    path.write_bytes(b'["metrics",1.0,{}]\n["rollouts",1e300,{}]\n["rollouts"]\n{}\n')


@pytest.mark.parametrize("is_alive", [True, False], ids=["written", "dead"])
@pytest.mark.parametrize(("harm", "count"), [(flip, 1), (cut, 1), (zero, 1), (other_json, 4), (Path.unlink, 1)])
def test_damage_is_counted_told_and_kept_and_loses_nothing_else(
    tmp_path: Path, harm: Callable[[Path], None], count: int, is_alive: bool, caplog: pytest.LogCaptureFixture
) -> None:
    writer = write_five(tmp_path)
    if not is_alive:
        writer.close()
    harm(writer.folder / "000003.jsonl")
    content = (writer.folder / "000003.jsonl").read_bytes() if harm is not Path.unlink else None
    sink = Taker()
    courier = Courier(tmp_path, connect=lambda: sink)
    courier.deliver()
    writer.close()
    courier.deliver()
    # Also another one finds it as it is, and counts it once.
    Courier(tmp_path, connect=lambda: sink).deliver()
    assert sink.ids == [1, 2, 4, 5]
    (spool,) = find_spools(tmp_path)
    assert spool.progress.damaged == count
    assert "000003.jsonl" in (spool.progress.damage or "")
    assert "000003.jsonl" in caplog.text
    if content is not None:
        assert (spool.folder / "000003.damaged").read_bytes() == content
    assert spool.unread_bytes() == 0


def test_the_last_segment_cut_short_under_its_writer_is_damage(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, url="x", run_id="x")
    for number in range(1, 4):
        writer.append("rollouts", {"id": number})
    sink = Taker()
    courier = Courier(tmp_path, connect=lambda: sink)
    courier.deliver()
    with (writer.folder / "000001.jsonl").open("r+b") as file:
        file.truncate(10)
    courier.deliver()
    assert Spool(writer.folder).progress.damaged == 1
    writer.append("rollouts", {"id": 4})
    writer.append("rollouts", {"id": 5})
    writer.close()
    courier.deliver()
    assert sink.ids == [1, 2, 3, 4, 5]
    assert Spool(writer.folder).progress.damaged == 1


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"segment":"x"}', b'{"unknown":1}'])
def test_a_lost_progress_costs_a_second_delivery_and_is_no_damage(tmp_path: Path, content: bytes | None) -> None:
    writer = write_five(tmp_path)
    sink = Taker()
    courier = Courier(tmp_path, connect=lambda: sink)
    courier.deliver()
    courier.close()
    assert not (writer.folder / "000001.jsonl").exists()
    if content is None:
        (writer.folder / "progress.json").unlink()
    else:
        (writer.folder / "progress.json").write_bytes(content)
    writer.append("rollouts", {"id": 6})
    writer.close()
    sink.ids.clear()
    Courier(tmp_path, connect=lambda: sink).deliver()
    assert sink.ids == [5, 6]
    assert not writer.folder.exists()


def test_a_spool_that_cannot_be_delivered_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write_five(tmp_path), write_five(tmp_path)
    real_save = Spool.save

    def save(spool: Spool, progress: Any) -> None:
        if spool.folder == first.folder:
            raise PermissionError(13, "Permission denied")
        real_save(spool, progress)

    monkeypatch.setattr(Spool, "save", save)
    sink = Taker()
    courier = Courier(tmp_path, connect=lambda: sink)
    with pytest.raises(PermissionError):
        courier.deliver()
    assert Spool(second.folder).progress.taken == 5
    for writer in (first, second):
        writer.close()


def test_a_spool_of_which_only_the_removal_was_cut_off_is_removed(tmp_path: Path) -> None:
    half_removed = tmp_path / f"{new_id()}.done"
    half_removed.mkdir()
    (half_removed / "meta.json").write_bytes(b"{}")
    assert list(find_spools(tmp_path)) == []
    Courier(tmp_path, connect=Taker).run(until_idle_seconds=0)
    assert list(tmp_path.iterdir()) == []
