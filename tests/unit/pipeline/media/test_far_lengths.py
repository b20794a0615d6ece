"""Lengths and places of 64 bits that lie beyond any file: a refusal, never an internal error."""

import io

import av
import pytest

from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.video_frames import opened_video, shown_frames
from pipeline.media.audio_errors import AudioUnreadableError
from pipeline.media.audio_in import decode_audio
from tests.support.media_samples import encoded, sine, wav


@pytest.mark.parametrize("length", [b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\x7f" + b"\xff" * 6 + b"\0"])
@pytest.mark.parametrize("kind", ["mp4", "caf", "asf"])
@pytest.mark.parametrize("front", [b"", wav(sine(0.1))], ids=["alone", "behind a WAV"])
def test_lengths_beyond_any_file_are_no_internal_error(kind, length, front, tmp_path):
    """Bytes in memory and a file on disk fail in different ways where a seek goes too far."""
    if kind == "mp4":
        data = b"\0\0\0\1ftyp" + length
    else:
        data = encoded(kind, {"caf": "pcm_s16be", "asf": "libmp3lame"}[kind], sine(0.2, 44_100), 44_100)
        at = data.index(b"data") + 4 if kind == "caf" else 16
        data = data[:at] + (length if kind == "caf" else length[::-1]) + data[at + 8 :]
    (tmp_path / "upload").write_bytes(front + data)
    for source in (front + data, tmp_path / "upload"):
        try:
            assert len(decode_audio(source).pcm) > 0 and kind != "mp4"
        except AudioUnreadableError as error:
            assert error.field == "audio"


@pytest.mark.parametrize("length", [b"\xff" * 8, b"\x7f" + b"\xff" * 7])
def test_a_video_box_beyond_any_file_is_a_refused_portrait(length):
    with pytest.raises(PortraitError) as caught, opened_video(io.BytesIO(b"\0\0\0\1ftypisom" + length), "a video"):
        pass
    assert caught.value.code in ("portrait_unreadable", "portrait_unsupported")


@pytest.mark.parametrize("place", [b"\x7f" + b"\xff" * 6 + b"\0", b"\x70" + bytes(7)])
def test_samples_beyond_any_file_are_a_refused_portrait(place, tmp_path):
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4", options={"movflags": "frag_keyframe+empty_moov"}) as output:
        stream = output.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        output.mux(stream.encode(av.VideoFrame(64, 64, "yuv420p")))
        output.mux(stream.encode(None))
    data = buffer.getvalue()
    at = data.index(b"tfhd") + 12
    (tmp_path / "clip.mp4").write_bytes(data[:at] + place + data[at + 8 :])
    with (
        (tmp_path / "clip.mp4").open("rb") as file,
        pytest.raises(PortraitError, match="damaged"),
        opened_video(file, "a video") as container,
    ):
        list(shown_frames(container))
