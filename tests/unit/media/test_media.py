"""Whatever is handed over as an image or a file becomes content with a name, or a reason; nothing is raised."""

from __future__ import annotations

import base64
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
from PIL import Image

from openmanus_rl.media import content as media
from openmanus_rl.media.blobs import BlobStore, blob_path, checkpoint_records, media_record
from openmanus_rl.media.content import Blob, Lifter, Unkept, as_blob, inline
from openmanus_rl.media.memo import Memo

PIXELS = numpy.arange(7 * 5 * 3, dtype="uint8").reshape(7, 5, 3)


def encoded(form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, form, **options)
    return file.getvalue()


PNG = encoded("PNG")
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(28)


def content(blob: Blob | Unkept) -> bytes:
    assert isinstance(blob, Blob), blob
    source = blob.source
    assert not isinstance(source, media.FileSource)
    return source if isinstance(source, bytes) else source()


def pixels(blob: Blob | Unkept) -> Any:
    return numpy.asarray(Image.open(io.BytesIO(content(blob))))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (PIXELS, PIXELS),
        (PIXELS[:, :, 0], PIXELS[:, :, 0]),
        (PIXELS[:, :, :1], PIXELS[:, :, 0]),
        (PIXELS.transpose(2, 0, 1), PIXELS),
        (numpy.dstack([PIXELS, PIXELS[:, :, :1]]), numpy.dstack([PIXELS, PIXELS[:, :, :1]])),
        (PIXELS[::-1, ::-1], PIXELS[::-1, ::-1]),
        (PIXELS / 255, PIXELS),
        (PIXELS.astype("int64"), PIXELS),
        (PIXELS > 50, (PIXELS > 50) * numpy.uint8(255)),
        (Image.fromarray(PIXELS), PIXELS),
    ],
    ids=["rgb", "grey", "one channel", "channels first", "rgba", "reversed", "floats", "ints", "bools", "Pillow"],
)
def test_pictures_become_png_without_loss(given: Any, shown: Any) -> None:
    blob = as_blob(given)
    assert isinstance(blob, Blob)
    assert (blob.content_type, blob.extension, blob.width, blob.height) == ("image/png", ".png", 5, 7)
    assert (pixels(blob) == shown).all()


def test_a_tensor_is_a_picture_too() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(PIXELS.transpose(2, 0, 1) / 255, dtype=torch.float32, requires_grad=True)
    assert (pixels(as_blob(tensor)) == PIXELS).all()


@pytest.mark.parametrize(
    ("given", "content_type", "extension", "size"),
    [
        (PNG, "image/png", ".png", (5, 7)),
        (bytearray(PNG), "image/png", ".png", (5, 7)),
        (encoded("JPEG"), "image/jpeg", ".jpg", (5, 7)),
        (encoded("GIF"), "image/gif", ".gif", (5, 7)),
        (encoded("WEBP"), "image/webp", ".webp", (5, 7)),
        (encoded("WEBP", lossless=True), "image/webp", ".webp", (5, 7)),
        (b"\x00\x00\x00\x20ftypisom" + bytes(20), "video/mp4", ".mp4", (None, None)),
        (b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm", "video/webm", ".webm", (None, None)),
        (WAV, "audio/wav", ".wav", (None, None)),
        (b"ID3\x03" + bytes(20), "audio/mpeg", ".mp3", (None, None)),
        (b"%PDF-1.7\n", "application/pdf", ".pdf", (None, None)),
        (b"anything else", "application/octet-stream", "", (None, None)),
        (b"\xff\xd8\xff", "image/jpeg", ".jpg", (None, None)),
    ],
)
def test_bytes_are_known_by_what_they_begin_with(
    given: bytes, content_type: str, extension: str, size: tuple[int | None, int | None]
) -> None:
    blob = as_blob(given)
    assert isinstance(blob, Blob)
    assert (blob.content_type, blob.extension, (blob.width, blob.height)) == (content_type, extension, size)
    assert content(blob) == given


@pytest.mark.parametrize(
    ("declared", "content_type", "extension"),
    [
        ("text/csv", "text/csv", ".csv"),
        ("Text/CSV;charset=utf-8", "text/csv", ".csv"),
        ("bild/ü", "application/octet-stream", ""),
        ("a/b\r\nX-Evil: 1", "application/octet-stream", ""),
        ("", "application/octet-stream", ""),
    ],
)
def test_a_declared_type_is_believed_if_it_is_one(declared: str, content_type: str, extension: str) -> None:
    for blob in (as_blob(b"a,b", content_type=declared), as_blob(data_url(b"a,b", declared))):
        assert isinstance(blob, Blob)
        assert (blob.content_type, blob.extension) == (content_type, extension)


class Hostile:
    shape = (3, 3)

    def __array__(self) -> Any:
        raise SystemError("no array")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (b"", "0 bytes"),
        ("no/such/file.png", "no such file"),
        (Path("/tmp"), "not a file"),
        ("/dev/zero", "not a file"),
        ("x" * 5000, "File name too long"),
        ("data:image/png;base64,!!!", "data URL"),
        (numpy.array([object(), None]), "not an image"),
        (numpy.zeros((4, 4), dtype=object), "object"),
        (numpy.zeros((0, 0, 3), dtype="uint8"), "no pixels"),
        (numpy.zeros((2, 2, 2, 2)), "not an image"),
        (numpy.full((2, 2), 300), "0 to 255"),
        (numpy.full((2, 2), numpy.nan), "0 to 1"),
        (Image.new("RGB", (0, 0)), "0 x 0"),
        (Hostile(), "no array"),
        (None, "NoneType is not bytes"),
        (17, "int is not bytes"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_kept_gives_a_short_reason(given: Any, reason: str) -> None:
    found = as_blob(given)
    assert isinstance(found, Unkept)
    assert reason in found.reason
    assert len(found.reason) < 400


def test_without_pillow_an_array_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    found = as_blob(PIXELS)
    assert isinstance(found, Unkept)
    assert "openmanus-rl[media]" in found.reason
    assert isinstance(as_blob(PNG), Blob)


def test_a_file_keeps_its_extension_where_its_bytes_tell_none(tmp_path: Path) -> None:
    (tmp_path / "trace.JSON").write_text("{}")
    (tmp_path / "frame.dat").write_bytes(PNG)
    trace, frame = as_blob(tmp_path / "trace.JSON"), as_blob(str(tmp_path / "frame.dat"))
    assert isinstance(trace, Blob)
    assert (trace.extension, trace.content_type, trace.size_bytes) == (".json", "application/json", 2)
    assert isinstance(frame, Blob)
    assert (frame.name, frame.width) == (as_blob(PNG).name, 5)  # type: ignore[union-attr]


def data_url(of: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(of).decode()}"


CHAT = [
    {"role": "system", "content": "You see pictures."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this? data:image/png;base64,AAAA is not for you"},
            {"type": "image_url", "image_url": {"url": data_url(PNG), "detail": "low"}},
            {"type": "input_audio", "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "wav"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "content": [
                    {
                        "type": "image",
                        "source": {
                            "type": "base64",
                            "media_type": "image/png",
                            "data": base64.b64encode(PNG).decode(),
                        },
                    }
                ],
            }
        ],
    },
    {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": base64.b64encode(PNG).decode()}}]},
]


def lifted(messages: list[Any], run_id: str = "run-1") -> tuple[list[Any], dict[str, bytes]]:
    lifter = Lifter(run_id)
    pairs = [lifter.lift(message) for message in messages]
    stored = {blob.path(run_id): content(blob) for _, found in pairs for blob in found if isinstance(blob, Blob)}
    return [message for message, _ in pairs], stored


def test_the_bytes_of_a_chat_are_lifted_out_and_put_back() -> None:
    messages, stored = lifted(CHAT)
    assert sorted(stored.values()) == sorted([PNG, WAV])
    assert base64.b64encode(PNG).decode() not in json.dumps(messages)
    path = next(path for path, held in stored.items() if held == PNG)
    assert messages[1]["content"][1]["image_url"] == {"url": f"storage://media/{path}", "detail": "low"}
    assert messages[1]["content"][0] is CHAT[1]["content"][0]  # type: ignore[index]
    asked: list[str] = []

    def fetch(wanted: str) -> bytes:
        asked.append(wanted)
        return stored[wanted]

    assert inline(messages, fetch) == CHAT
    assert sorted(asked) == sorted(stored)


def test_raw_bytes_and_pictures_in_a_chat_come_back_as_data_urls() -> None:
    message = {"role": "tool", "content": [{"image": Image.fromarray(PIXELS)}, {"raw": b"\x00\x01"}, {"frame": PIXELS}]}
    (found,), stored = lifted([message])
    assert json.dumps(found).count("storage://media/run-1/") == 3
    back = inline(found, stored.__getitem__)
    assert back["content"][1]["raw"] == data_url(b"\x00\x01", "application/octet-stream")
    assert back["content"][0]["image"] == back["content"][2]["frame"]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "text"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "user", "content": [{"url": "data:image/png;base64,???"}]},
        {"role": "user", "content": [{"url": "data:,plain"}]},
        {"role": "user", "content": [{"type": "text", "media_type": "text/plain", "data": "abcdabcd"}]},
        {"role": "user", "content": [{"format": "json", "data": "abcdabcd"}]},
        {"role": "user", "content": [{"logits": numpy.zeros(3), "scores": numpy.zeros((3, 3))}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": 1, "arguments": "{}"}]},
        "not a message",
        None,
    ],
)
def test_a_message_without_bytes_is_returned_as_it_is(message: Any) -> None:
    found, blobs = Lifter("run-1").lift(message)
    assert found is message
    assert blobs == []


def test_what_cannot_be_kept_in_a_chat_leaves_its_reason() -> None:
    message, found = Lifter("run-1").lift({"role": "user", "content": [{"image": Image.new("RGB", (0, 3))}]})
    assert message["content"][0]["image"] == "(not kept: an image of 0 x 3 pixels is empty)"
    assert found == [Unkept("an image of 0 x 3 pixels is empty")]


def test_a_chat_given_again_is_not_decoded_or_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = numpy.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype="uint8")
    content = [{"url": data_url(PNG + bytes(2000))}, b"\x01" * 2000, noise, Image.fromarray(noise)]
    message = {"role": "user", "content": content}
    lifter = Lifter("run-1")
    first = lifter.lift(message)
    with monkeypatch.context() as patch:
        patch.setattr(media, "_from_bytes", lambda *_, **__: pytest.fail("it was looked at again"))
        assert lifter.lift(message) == first
    # An array may change under one's hands: then it is another picture.
    noise[0, 0, 0] += 1
    changed = lifter.lift(message)[0]["content"]
    assert [new == old for new, old in zip(changed, first[0]["content"], strict=True)] == [True, True, False, True]


def test_the_memory_of_chats_is_bounded() -> None:
    lifter = Lifter("run-1")
    lifter._memo = Memo(max_bytes=10_000)
    for number in range(100):
        message, found = lifter.lift({"content": [number.to_bytes(4, "big") * 500]})
        assert len(found) == 1
        assert message["content"][0].startswith("storage://media/")
    assert 0 < lifter._memo.held_bytes <= 10_000


def test_content_is_written_once_and_closed_to_others(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    records = [media_record(store, PIXELS, run_id="r", kind="frame", agent_state_id=str(n))[0] for n in range(3)]
    (file,) = (tmp_path / "blobs").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert {record["_blob"] for record in records if record} == {file.name}
    assert len({record["id"] for record in records if record}) == 3
    # Another process's store, on the same folder, finds it too.
    assert BlobStore(tmp_path).keep(as_blob(PIXELS))  # type: ignore[arg-type]
    assert len(list((tmp_path / "blobs").iterdir())) == 1


def test_a_disk_without_room_loses_content_and_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file where the folder should be")
    assert media_record(BlobStore(tmp_path), PNG, run_id="r", kind="image") == (None, None)


def test_a_file_that_changes_meanwhile_is_not_kept_under_a_wrong_name(tmp_path: Path) -> None:
    file = tmp_path / "video.mp4"
    file.write_bytes(b"first")
    blob = as_blob(file)
    file.write_bytes(b"second, longer")
    assert isinstance(blob, Blob)
    assert not BlobStore(tmp_path).keep(blob)
    assert list((tmp_path / "blobs").iterdir()) == []


def test_a_checkpoint_is_kept_as_it_was_when_it_was_logged(tmp_path: Path) -> None:
    file = tmp_path / "latest.pt"
    record = {"id": "c", "training_run_id": "r", "checkpoint_number": 3, "metrics": {"loss": 1}}
    store = BlobStore(tmp_path)
    names = []
    for text in ("one", "two"):
        file.write_text(text)
        row, of_file = checkpoint_records(store, record, file)
        assert row == record
        assert of_file["storage_path"] == "r/checkpoint_3.pt"
        names.append(of_file["_blob"])
    assert [blob_path(tmp_path, name).read_text() for name in names] == ["one", "two"]
    # What a rewind hid is not replaced.
    _, of_file = checkpoint_records(store, record, file, timeline=2)
    assert of_file["storage_path"] == "r/timeline_2/checkpoint_3.pt"


@pytest.mark.parametrize(
    ("number", "file", "reason"),
    [
        (3, "missing.pt", "no such file"),
        (3, "/tmp", "not a file"),
        (-1, __file__, "-1"),
        (3, "a\0b", "a\0b"),
        (3, None, "NoneType"),
    ],
)
def test_a_checkpoint_without_a_file_is_recorded_and_the_file_refused(
    tmp_path: Path, number: int, file: Any, reason: str
) -> None:
    record = {"id": "c", "training_run_id": "r", "checkpoint_number": number, "step": 30}
    row, of_file = checkpoint_records(BlobStore(tmp_path), record, file)
    assert row == record
    assert reason in of_file["_unkept"]
