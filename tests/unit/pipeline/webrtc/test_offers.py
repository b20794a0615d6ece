"""Offers as other programs write them: spellings, codecs, candidates that hide."""

from __future__ import annotations

import pytest

from kernels.errors import InvalidInputError
from pipeline.webrtc import sdp
from pipeline.webrtc.errors import NoCommonCodecError
from pipeline.webrtc.h264_formats import read_format
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.offer_text import MAX_CANDIDATES, plain_offer, usable_candidate
from pipeline.webrtc.peer import LivePeer
from pipeline.webrtc.sdp import TrickledCandidate
from pipeline.webrtc.viewers import Viewers
from tests.support.rtc import RTC, Client, Ticker, session, until

FINGERPRINT = (
    "a=fingerprint:sha-256 C2:6F:5E:53:77:3F:A0:A6:AE:37:D4:2D:4D:BF:23:4D:"
    "9B:FF:9E:E6:E4:E3:6D:57:DD:E7:28:C7:86:12:C6:15"
)
TRANSPORT = ["a=ice-ufrag:j76C", "a=ice-pwd:EJheRiJ6EqRLZZHdQ4Y5tP00", FINGERPRINT, "a=setup:actpass", "a=rtcp-mux"]
HEAD = ["v=0", "o=- 1 1 IN IP4 0.0.0.0", "s=-", "t=0 0"]
HIDDEN = "candidate:9 1 udp 2122252543 0b7a9a1c-0001-4f6f-8d5a-2c1f0e9d8c7b.local 50000 typ host"
DIRECTIONS = ("a=sendonly", "a=recvonly", "a=sendrecv", "a=inactive")


def section(kind: str, numbers: str, *lines: str, mid: str = "0") -> list[str]:
    return [f"m={kind} 9 UDP/TLS/RTP/SAVPF {numbers}", "c=IN IP4 0.0.0.0", *TRANSPORT, f"a=mid:{mid}", *lines]


def text(*parts: list[str], head: list[str] | None = None) -> str:
    return "\r\n".join([*(head or HEAD), *(line for part in parts for line in part)]) + "\r\n"


def h264(fmtp: str | None, number: int = 96, name: str = "H264", *more: str) -> list[str]:
    lines = [f"a=rtpmap:{number} {name}/90000", *([f"a=fmtp:{number} {fmtp}"] if fmtp is not None else [])]
    return section("video", str(number), *lines, "a=recvonly", *more)


def answered(offer: str) -> str:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> str:
        assert hub.level == "3.0"
        peer = LivePeer(hub, RTC)
        answer = await peer.answer(offer)
        await peer.close()
        return answer

    return str(session(body))


def formats(answer: str) -> dict[str, dict[str, str]]:
    """Payload number -> parameters, of the H.264 formats of an answer."""
    lines = answer[answer.index("m=video") :].splitlines()
    numbers = [line.split(":")[1].split()[0] for line in lines if line.startswith("a=rtpmap:") and "H264" in line]
    assert set(numbers) <= set(lines[0].split()[3:])
    told = {line.split()[0].removeprefix("a=fmtp:"): line.split()[1] for line in lines if line.startswith("a=fmtp:")}
    return {one: dict(pair.split("=") for pair in told[one].split(";")) for one in numbers}


@pytest.mark.parametrize(
    ("fmtp", "profile", "mode"),
    [
        ("profile-level-id=42e01f;packetization-mode=1;level-asymmetry-allowed=1", "42e01e", "1"),
        ("level-asymmetry-allowed=1; packetization-mode=1; profile-level-id=42E01F", "42e01e", "1"),
        ("Profile-Level-Id=42001f;Packetization-Mode=1;level-asymmetry-allowed=1", "42001e", "1"),
        ("profile-level-id=4d001f;packetization-mode=1;level-asymmetry-allowed=1", "4d001e", "1"),
        ("profile-level-id=4D0032;packetization-mode=1;level-asymmetry-allowed=1", "4d001e", "1"),
        ("profile-level-id=64001f;packetization-mode=1;level-asymmetry-allowed=1", "64001e", "1"),
        ("profile-level-id=640c1f;packetization-mode=1;level-asymmetry-allowed=1", "640c1e", "1"),
        ("profile-level-id=f4001f;packetization-mode=1;level-asymmetry-allowed=1", "f4001e", "1"),
        ("profile-level-id=42e01f;level-asymmetry-allowed=1", "42e01e", "0"),
        ("profile-level-id=64001f;packetization-mode=0;level-asymmetry-allowed=1", "64001e", "0"),
        ("packetization-mode=1", "42e01e", "1"),
        (None, "42e01e", "0"),
        ("profile-level-id=42e00a;packetization-mode=1", "42e00a", "1"),  # without asymmetry, never above the offer
        ("profile-level-id=42e01f;packetization-mode=1", "42e01e", "1"),
        (
            "profile-level-id=42e009;packetization-mode=1;level-asymmetry-allowed=1",
            "42e01e",
            "1",
        ),  # 1b, no number of aiortc's
    ],
)
def test_a_format_that_our_stream_satisfies_is_answered_as_it_was_offered(
    fmtp: str | None, profile: str, mode: str
) -> None:
    found = formats(answered(text(h264(fmtp))))
    assert found == {"96": {"level-asymmetry-allowed": "1", "packetization-mode": mode, "profile-level-id": profile}}


@pytest.mark.parametrize(
    "fmtp",
    [
        "profile-level-id=42e01f;packetization-mode=2",  # interleaved
        "profile-level-id=7a101f;packetization-mode=1",  # High 4:2:2 Intra
        "profile-level-id=f4101f;packetization-mode=1",
        "profile-level-id=53001f;packetization-mode=1",  # scalable
        "profile-level-id=zzzzzz;packetization-mode=1",
        "profile-level-id=42e01;packetization-mode=1",
        "profile-level-id=42e01f;packetization-mode=one",
    ],
)
def test_a_format_that_our_stream_does_not_satisfy_is_refused_with_both_sides_named(fmtp: str) -> None:
    with pytest.raises(NoCommonCodecError) as refused:
        sdp.read_offer(text(h264(fmtp)))
    assert refused.value.field == "sdp"
    profile = fmtp.partition(";")[0].removeprefix("profile-level-id=")
    assert profile in str(refused.value) and "Main or High" in str(refused.value)


def test_a_refusal_lists_what_was_offered_once_and_not_endlessly() -> None:
    lines = [f"a=rtpmap:{96 + n} {name}/90000" for n, name in enumerate(["VP8", "rtx", "VP9", "AV1", "VP9"])]
    with pytest.raises(NoCommonCodecError, match="got video: VP8, VP9, AV1 ") as refused:
        sdp.read_offer(text(section("video", "96 97 98 99 100", *lines, "a=recvonly")))
    assert "rtx" not in str(refused.value)
    many = [f"a=rtpmap:{n} X{n}/90000" for n in range(77, 120)]
    with pytest.raises(NoCommonCodecError, match="X88 and 31 more"):
        sdp.read_offer(text(section("video", "96", *many, "a=recvonly")))
    assert read_format(96, {"packetization-mode": "-1"}) is None


def test_a_voice_without_opus_is_refused_by_what_it_offers() -> None:
    video = h264("packetization-mode=1")
    with pytest.raises(NoCommonCodecError, match="audio: PCMU, PCMA.*Opus"):
        sdp.read_offer(text(video, section("audio", "0 8", "a=sendrecv", mid="1")))
    with pytest.raises(NoCommonCodecError, match="audio: L16"):
        sdp.read_offer(text(video, section("audio", "98", "a=rtpmap:98 L16/48000", "a=sendrecv", mid="1")))


def test_the_best_of_many_formats_is_answered_alone_with_its_retransmission() -> None:
    """Chrome's list: several profiles in both modes, payload numbers below 96 among them."""
    numbers = {103: "42001f;1", 107: "42001f;0", 109: "42e01f;1", 115: "42e01f;0", 117: "4d001f;1", 39: "64001f;1"}
    lines = ["a=rtpmap:96 VP8/90000", "a=rtcp-fb:96 nack"]
    for number, what in numbers.items():
        profile, mode = what.split(";")
        told = f"level-asymmetry-allowed=1;packetization-mode={mode};profile-level-id={profile}"
        lines += [f"a=rtpmap:{number} H264/90000", f"a=rtcp-fb:{number} nack pli", f"a=fmtp:{number} {told}"]
        lines += [f"a=rtpmap:{number + 1} rtx/90000", f"a=fmtp:{number + 1} apt={number}"]
    listed = " ".join(["96", *(f"{number} {number + 1}" for number in numbers)])
    answer = answered(text(section("video", listed, *lines, "a=recvonly")))
    assert list(formats(answer)) == ["109"]
    assert "a=fmtp:110 apt=109" in answer and "m=video" in answer
    assert answer[answer.index("m=video") :].splitlines()[0].split()[3:] == ["109", "110"]
    assert "a=rtcp-fb:109 nack pli" in answer and "a=rtcp-fb:109 nack\r\n" not in answer


@pytest.mark.parametrize("number", [35, 39, 63, 77, 95, 96, 127])
def test_payload_numbers_are_the_clients_own(number: int) -> None:
    fmtp = "profile-level-id=42e01f;packetization-mode=1"
    rtx = [f"m=video 9 UDP/TLS/RTP/SAVPF {number} 50", "a=rtpmap:50 RTX/90000", f"a=fmtp:50 apt={number}"]
    lines = h264(fmtp, number)
    answer = answered(text([rtx[0], *lines[1:], *rtx[1:]]))
    assert list(formats(answer)) == [str(number)]
    assert answer[answer.index("m=video") :].splitlines()[0].split()[3:] == [str(number), "50"]


@pytest.mark.parametrize("name", ["H264", "h264", "H264 "])
@pytest.mark.parametrize(
    "feedback", [(), ("a=rtcp-fb:96 ccm fir",), ("a=rtcp-fb:* nack pli", "a=rtcp-fb:96 goog-remb")]
)
def test_names_in_any_case_and_any_feedback_will_do(name: str, feedback: tuple[str, ...]) -> None:
    lines = [line.replace(f"{name}/", f"{name.strip()}/") for line in h264("packetization-mode=1", 96, name, *feedback)]
    answer = answered(text(lines))
    assert list(formats(answer)) == ["96"] and "a=rtcp-fb:96 nack\r\n" not in answer
    assert ("nack pli" in answer) == any("pli" in line for line in feedback)


@pytest.mark.parametrize(
    ("head", "own", "taken"),
    [
        ([], [], "sendonly"),  # nothing said: sendrecv
        (["a=recvonly"], [], "sendonly"),
        (["a=sendonly"], ["a=recvonly"], "sendonly"),
        ([], ["a=RecvOnly"], "sendonly"),
        (["a=sendonly"], [], None),
        (["a=inactive"], [], None),
        ([], ["a=sendonly"], None),
    ],
)
def test_a_section_without_direction_has_the_sessions_or_both(
    head: list[str], own: list[str], taken: str | None
) -> None:
    lines = [line for line in h264("packetization-mode=1") if line != "a=recvonly"]
    offer = text([*lines, *own], head=[*HEAD, *head])
    if taken is None:
        with pytest.raises(NoCommonCodecError, match="no video section that receives"):
            sdp.read_offer(offer)
        return
    assert f"a={taken}" in answered(offer).splitlines()


def test_offers_of_other_programs_are_read() -> None:
    """As Safari, Firefox, OBS and GStreamer write them, put together by hand from the RFCs."""
    opus = ["a=rtpmap:111 opus/48000/2", "a=fmtp:111 minptime=10;useinbandfec=1", "a=sendrecv"]
    unified = [*HEAD, "a=group:BUNDLE 0 1", "a=extmap-allow-mixed", "a=msid-semantic: WMS"]
    main = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=640c1f"
    safari = text(
        section("audio", "111", *opus, "a=extmap:1 urn:ietf:params:rtp-hdrext:ssrc-audio-level vad=on", mid="0"),
        section("video", "96", "a=rtpmap:96 H264/90000", f"a=fmtp:96 {main}", "a=rtcp-fb:96 transport-cc", mid="1"),
        head=unified,
    )
    firefox = text(
        [line for line in h264(f"profile-level-id=42e01f; {main[:46]}", 126, "H264", "a=ice-options:trickle")
         if line not in (FINGERPRINT, "a=setup:actpass")],
        head=[*HEAD, "a=sendrecv", FINGERPRINT, "a=setup:ACTPASS", "a=group:BUNDLE 0"],
    )  # fmt: skip
    obs = text(
        section("video", "96", "a=rtpmap:96 H264/90000", "a=fmtp:96 profile-level-id=42e01f;packetization-mode=1"
                ";level-asymmetry-allowed=1", "a=rtcp-fb:96 nack", "a=rtcp-fb:96 goog-remb", "a=recvonly",
                "a=end-of-candidates"),
    )  # fmt: skip
    gstreamer = text(
        section("video", "96 97", "a=rtcp-mux-only", "a=rtcp-rsize", "a=recvonly", "a=rtpmap:96 H264/90000",
                "a=rtcp-fb:96 nack pli", "a=framerate:25", "a=fmtp:96 packetization-mode=(string)1",
                "a=rtpmap:97 H264/90000", "a=fmtp:97 packetization-mode=1;profile-level-id=42c015;level-asymmetry-allowed=1",
                "a=fmtp:98 x-google-start-bitrate=1"),
    )  # fmt: skip
    for offer, number, profile in ((safari, "96", "640c1e"), (firefox, "126", "42e01e"), (obs, "96", "42e01e")):
        assert formats(answered(offer))[number]["profile-level-id"] == profile
    assert formats(answered(gstreamer))["97"]["profile-level-id"] == "42c01e"


def test_pictures_in_single_nal_units_arrive_and_are_for_everybody_after() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        watch = hub.subscribe("video")
        assert len((await watch.get()).payloads) == 1, "small pictures are put together in mode 1"
        peer = LivePeer(hub, RTC)
        answer = await peer.answer((await client.offer()).replace("packetization-mode=1", "packetization-mode=0"))
        assert "packetization-mode=0" in answer
        await client.accept(answer.replace("packetization-mode=0", "packetization-mode=1"))  # aiortc reads both alike
        await until(lambda: len(client.pictures) > 10)
        units = [await watch.get() for _ in range(3)]
        while not units[-1].key:
            hub.request_key()
            units.append(await watch.get())
        kinds = [payload[0] & 31 for payload in units[-1].payloads]
        assert {7, 8, 5} <= set(kinds) and not {24, 28} & set(kinds), "no aggregation, no fragments"
        assert max(map(len, units[-1].payloads)) <= 1300
        assert hub.stats().encoder == "libx264"
        await peer.close()

    session(body)


@pytest.mark.parametrize(
    "candidate",
    [
        HIDDEN,
        "candidate:1 1 tcp 1518280447 192.0.2.7 9 typ host tcptype active",
        "candidate:1 2 udp 2130706430 192.0.2.7 5000 typ host",  # RTCP's own component, which nobody uses beside rtcp-mux
        "candidate:1 1 udp 2130706431 fe80::1 5000 typ host",
        "candidate:1 1 udp 2130706431 fe80::1%eth0 5000 typ host",
        "candidate:1 1 udp 2130706431 0.0.0.0 5000 typ host",
        "candidate:1 1 udp 2130706431 224.0.0.1 5000 typ host",
        "candidate:1 1 udp 2130706431 192.0.2.7 0 typ host",
        "candidate:1 1 udp 2130706431 client.example 5000 typ host",
        "candidate:1",
    ],
)
def test_a_client_whose_candidates_are_all_useless_connects_all_the_same(candidate: str) -> None:
    """In the offer, and in a trickle after an offer without any; the mark of the end comes with them."""
    assert not usable_candidate(candidate)

    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        offer = await client.offer()
        bare = [line for line in offer.splitlines() if "candidate" not in line]
        told = [
            line
            for one in bare
            for line in ([one, f"a={candidate}", "a=end-of-candidates"] if one.startswith("a=mid:") else [one])
        ]
        peer = LivePeer(hub, RTC)
        answer = await peer.answer("\r\n".join(told) + "\r\n")
        assert " typ host" in answer, "we say where we are"
        await peer.add_candidates([TrickledCandidate(candidate, "0", 0), TrickledCandidate(""), None])
        await client.accept(answer)
        await until(lambda: len(client.pictures) > 2)
        await peer.close()

    session(body)


def test_a_viewer_that_hides_connects_too() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        bare = [line for line in (await client.offer()).splitlines() if "candidate" not in line]
        at = next(place for place, line in enumerate(bare) if line.startswith("a=mid:"))
        viewers = Viewers(hub, RTC)
        viewer, answer = await viewers.add_viewer(
            "\r\n".join([*bare[:at], f"a={HIDDEN}", "a=end-of-candidates", *bare[at:]])
        )
        await viewers.add_candidates(viewer, sdp.read_fragment(f"a=mid:0\r\na={HIDDEN}\r\na=end-of-candidates"))
        await client.accept(answer)
        await until(lambda: len(client.pictures) > 2)
        await viewers.close()

    session(body)


def test_candidates_that_pair_with_none_of_ours_do_not_end_the_wait() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        offer = await client.offer()
        lines = [line for line in offer.splitlines() if "candidate" not in line]
        at = next(place for place, line in enumerate(lines) if line.startswith("a=mid:"))
        lines[at:at] = ["a=candidate:1 1 udp 2130706431 2001:db8::7 5000 typ host", "a=end-of-candidates"]
        peer = LivePeer(hub, RTC)
        answer = await peer.answer("\r\n".join(lines) + "\r\n")
        await peer.add_candidates([None])
        await client.accept(answer)
        await until(lambda: len(client.pictures) > 2)
        await peer.close()

    session(body)


def test_useless_candidates_take_no_useful_ones_place() -> None:
    useful = "candidate:1 1 udp 2130706431 192.0.2.7 5000 typ host"
    lines = h264("packetization-mode=1", 96, "H264", *[f"a={HIDDEN}"] * 100, *[f"a={useful}"] * 100)
    plain = plain_offer(text(lines)).text
    assert plain.count(useful) == MAX_CANDIDATES and ".local" not in plain
    fragment = "\r\n".join(["a=mid:0", *[f"a={HIDDEN}"] * 100, f"a={useful}", "a=end-of-candidates"])
    assert sdp.read_fragment(fragment) == [TrickledCandidate(useful, "0", None), None]

    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        peer = LivePeer(hub, RTC)
        offer = await client.offer()
        await peer.answer("\r\n".join(line for line in offer.splitlines() if "candidate" not in line) + "\r\n")
        await peer.add_candidates([TrickledCandidate(HIDDEN, "0", 0)] * 100)
        await peer.add_candidates(
            [TrickledCandidate(useful.replace("5000", str(port)), "0", 0) for port in range(1, 99)]
        )
        transport = peer._pc.getTransceivers()[0].receiver.transport.transport
        assert len(transport.getRemoteCandidates()) == MAX_CANDIDATES
        await peer.close()

    session(body)


def test_an_offer_with_a_broken_useful_candidate_is_refused() -> None:
    broken = "a=candidate:1 1 udp priority 192.0.2.7 5000 typ host"
    with pytest.raises(InvalidInputError):
        sdp.read_offer(text(h264("packetization-mode=1", 96, "H264", broken)))
