"""What hostile headers cost: how much of an upload is looked at to find its parts, counted in bytes."""

import io

import pytest

from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.video_frames import opened_video
from pipeline.media.audio_errors import AudioUnreadableError
from pipeline.media.audio_parts import parts_of
from pipeline.media.scanned_file import HEAD, LEAST_LOOKS, LOOKS_PER_BYTE, ScanLimitError, ScannedFile
from tests.support.media_samples import sine, wav

KIB = 1024
EBML = b"\x1aE\xdf\xa3\x80"
CLUSTER = b"\x1f\x43\xb6\x75\xff"
OGG = b"OggS\0" + bytes(21) + b"\1\1."
FLAC = b"fLaC\0\0\0\x22" + bytes(34)


class Counted(io.BytesIO):
    """A file that counts the bytes that are read from it."""

    count = 0

    def read(self, size=-1):
        data = super().read(size)
        self.count += len(data)
        return data


@pytest.mark.parametrize(
    "start,damage",
    [(EBML, CLUSTER + b"\0"), (OGG.replace(b"\0\0", b"\0\2", 1), OGG + b"x")],
    ids=["matroska", "ogg"],
)
def test_one_damage_after_the_other_is_refused_before_it_costs_much(start, damage):
    file = Counted(start + damage * 20_000)
    with pytest.raises(AudioUnreadableError, match="headers that lead nowhere") as caught:
        parts_of(file)
    assert caught.value.field == "audio"
    assert file.count <= LOOKS_PER_BYTE * len(file.getvalue()) + LEAST_LOOKS


def test_what_lies_close_behind_a_damage_is_found_by_a_short_look():
    file = Counted(
        EBML + (CLUSTER + b"\0") * 20 + CLUSTER + b"\xec\x01" + (1 << 20).to_bytes(7, "big") + bytes(1 << 20)
    )
    assert [(part.start, part.end) for part in parts_of(file)] == [(0, len(file.getvalue()))]
    assert file.count < 20 * 8 * KIB


def test_parts_are_looked_for_together_and_from_near_to_far():
    junk = bytes(range(1, 251)) * 4000
    file = Counted(FLAC * 50 + junk)
    assert [part.start for part in parts_of(file)] == [number * len(FLAC) for number in range(50)]
    assert file.count < 2 * len(junk) + 50 * 8 * KIB


def test_a_run_of_zeros_is_looked_at_once():
    heads, zeros = 500, 512 * KIB

    def head(at):
        length = heads * 13 - at
        return b"ID3\x03\0\0" + bytes(length >> shift & 0x7F for shift in (21, 14, 7, 0)) + b"TIT"

    file = Counted(b"\xff" + b"".join(head(1 + 13 * number) for number in range(heads)) + bytes(zeros))
    assert [part.start for part in parts_of(file)] == [0]
    assert file.count < 3 * zeros + heads * 4 * HEAD


@pytest.mark.parametrize("pad", [0, 700, 20_000])
def test_a_wav_behind_a_tag_and_zeros_is_a_file_of_its_own(pad):
    sound = wav(sine(0.1))
    tag = b"ID3\x03\0\0\0\0\0\x0dTIT2\0\0\0\3\0\0\0ab"
    first = b"\xff" + b"\x55" * 5000
    assert parts_of(io.BytesIO(first + tag + bytes(pad) + sound))[-1].start == len(first + tag) + pad


def test_a_video_that_leads_back_and_forth_is_a_refused_portrait():
    doc = b"\x42\x82\x88matroska"
    head = EBML[:4] + bytes([0x80 | len(doc)]) + doc
    with (
        pytest.raises(PortraitError, match="lead nowhere"),
        opened_video(io.BytesIO(head + (CLUSTER + b"\0") * 20_000), "a video"),
    ):
        pass


def test_reads_behind_the_end_are_empty_and_every_read_counts(monkeypatch):
    monkeypatch.setattr("pipeline.media.scanned_file.LEAST_LOOKS", 10 * HEAD)
    file = ScannedFile(io.BytesIO(b"abc"))
    assert file.bytes_at(1, 9) == b"bc" and file.bytes_at(3, 9) == file.bytes_at(1 << 70, 9) == b""
    for _ in range(7):
        file.bytes_at(0, 1)
    with pytest.raises(ScanLimitError, match=f"{LOOKS_PER_BYTE * 3 + 10 * HEAD} bytes"):
        file.bytes_at(0, 1)
