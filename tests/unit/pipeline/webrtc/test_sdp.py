"""Descriptions and candidates as text; servers for clients."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import SecretStr

from kernels.errors import InvalidInputError
from pipeline.live.settings import IceServer, RtcSettings
from pipeline.webrtc import ice, sdp
from pipeline.webrtc.errors import NoCommonCodecError
from pipeline.webrtc.h264_formats import H264Format
from pipeline.webrtc.offer_text import plain_offer
from pipeline.webrtc.sdp import TrickledCandidate
from tests.support.rtc import Client, Tone

HOST = "a=candidate:1 1 udp 2130706431 192.0.2.7 5000 typ host"
V6 = "a=candidate:2 1 udp 2130706431 fd00::7 5001 typ host"
MDNS = "a=candidate:3 1 udp 2113937151 0b7a9a1c-0001-4f6f-8d5a-2c1f0e9d8c7b.local 5002 typ host"
TCP = "a=candidate:4 1 tcp 1518280447 192.0.2.7 9 typ host tcptype active"
REFLEXIVE = "a=candidate:5 1 udp 1694498815 203.0.113.5 6000 typ srflx raddr 192.0.2.7 rport 5000"


def offer_of(**options: object) -> str:
    async def body() -> str:
        client = Client(**options)  # type: ignore[arg-type]
        client.channel()
        text = await client.offer()
        await client.close()
        return text

    return asyncio.run(body())


@pytest.fixture(scope="module")
def offer() -> str:
    return offer_of(audio="sendrecv")


def test_an_offer_says_what_it_wants(offer: str) -> None:
    media = sdp.read_offer(offer)
    assert media.kinds == ("video", "audio", "application")
    assert media.wants_video and media.wants_audio and media.sends_audio and media.has_data
    assert not sdp.read_offer(offer_of(audio="recvonly")).sends_audio
    assert not sdp.read_offer(offer_of(audio="sendonly", microphone=None)).wants_audio
    assert sdp.read_offer(offer_of(microphone=Tone())).sends_audio


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "v=0",
        "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n",
        "m=",
        "\x00" * 50,
        "x" * 70_000,
        "m=video 9 X y\r\n",
    ],
)
def test_what_is_no_offer_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        sdp.read_offer(text)
    assert refused.value.field == "sdp"


def test_an_answer_is_no_offer(offer: str) -> None:
    with pytest.raises(InvalidInputError, match="type"):
        sdp.read_offer(offer, "answer")


def test_cut_and_garbled_offers_never_escape_as_something_else(offer: str) -> None:
    for cut in range(0, len(offer), 97):
        for text in (offer[:cut], offer[:cut] + "\r\na=fmtp:\r\n" + offer[cut:], offer[cut:]):
            try:
                sdp.read_offer(text)
            except InvalidInputError as error:
                assert error.field == "sdp"


def test_an_offer_without_h264_or_without_a_receiving_video_has_no_common_codec(offer: str) -> None:
    with pytest.raises(NoCommonCodecError, match="VP8|no codec|AV1"):
        sdp.read_offer(offer.replace("H264/90000", "VP8/90000"))
    with pytest.raises(NoCommonCodecError):
        sdp.read_offer(offer_of(video="sendonly"))
    with pytest.raises(InvalidInputError):
        sdp.read_offer(offer.replace("a=ice-pwd", "a=x-pwd"))
    with pytest.raises(InvalidInputError):
        sdp.read_offer("\r\n".join(line for line in offer.splitlines() if "fingerprint" not in line))


def test_names_tcp_and_the_mark_of_the_end_are_stripped_and_the_rest_is_kept() -> None:
    text = "\r\n".join(["v=0", "m=audio 9 x", HOST, MDNS, TCP, V6, REFLEXIVE, "a=end-of-candidates"])
    kept = [line for line in plain_offer(text).text.splitlines() if "candidate" in line]
    assert kept == [HOST, V6, REFLEXIVE]


def test_the_public_address_replaces_our_own_once_per_port() -> None:
    again = HOST.replace("192.0.2.7", "10.0.0.7")
    text = "\r\n".join(["m=video 5000 x", "c=IN IP4 192.0.2.7", HOST, again, V6, REFLEXIVE, "m=audio 5000 x", HOST])
    lines = sdp.public_answer(text, "198.51.100.9").splitlines()
    assert "c=IN IP4 198.51.100.9" in lines
    assert sum("198.51.100.9 5000 typ host" in line for line in lines) == 2, "once per section"
    assert V6 in lines and any("203.0.113.5 6000 typ srflx" in line for line in lines)
    assert not any("10.0.0.7" in line or " 192.0.2.7 5000 typ" in line for line in lines)
    assert sdp.public_answer(text, "") == text


def test_levels_as_rfc_6184_writes_them() -> None:
    offered = H264Format(96, "42e0", 31, 1, True)
    written = {level: offered.parameters(level)["profile-level-id"] for level in ("4.0", "4.2", "3.1")}
    assert written == {"4.0": "42e028", "4.2": "42e02a", "3.1": "42e01f"}


def test_fragments_of_browsers_and_of_obs() -> None:
    text = (
        "a=ice-ufrag:EsAw\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\n"
        + HOST
        + "\r\nm=video 9 RTP/AVP 0\r\n"
        + V6
        + "\r\na=end-of-candidates\r\n"
    )
    assert sdp.read_fragment(text) == [
        TrickledCandidate(HOST[2:], "0", None),
        TrickledCandidate(V6[2:], None, 1),
        None,
    ]
    assert sdp.read_fragment("") == []
    assert sdp.read_fragment(HOST) == [TrickledCandidate(HOST[2:], None, 0)]
    with pytest.raises(InvalidInputError):
        sdp.read_fragment("a" * 70_000)


SERVERS = RtcSettings(
    ice_servers=(
        IceServer(urls=("stun:stun.example.org:3478",)),
        IceServer(urls=("turn:turn.example.org:3478?transport=udp",), username='u"1', credential=SecretStr("geheim")),
    )
)


def test_servers_are_taken_apart() -> None:
    assert ice.helper_urls(RtcSettings()) == []
    stun, turn = ice.helper_urls(SERVERS)
    assert (stun.kind, stun.host, stun.port, stun.username) == ("stun", "stun.example.org", 3478, None)
    assert (turn.kind, turn.transport, turn.tls, turn.username, turn.credential) == (
        "turn",
        "udp",
        False,
        'u"1',
        "geheim",
    )
    urls = ("stuns:a.example", "turns:b.example", "turn:c.example?transport=tcp", "turns:d.example?transport=udp")
    found = ice.helper_urls(RtcSettings(ice_servers=(IceServer(urls=urls),)))
    assert [(one.host, one.port, one.transport, one.tls) for one in found] == [
        ("b.example", 5349, "tcp", True),
        ("c.example", 3478, "tcp", False),
    ]


def test_clients_get_servers_with_secrets_and_nothing_else_shows_them() -> None:
    links = ice.link_headers(SERVERS.ice_servers)
    assert links[0] == '<stun:stun.example.org:3478>; rel="ice-server"'
    assert links[1].endswith('username="u\\"1"; credential="geheim"; credential-type="password"')
    assert (
        "geheim" not in repr(ice.helper_urls(SERVERS))
        and "geheim" not in repr(SERVERS)
        and "geheim" not in str(SERVERS)
    )


def test_a_url_that_is_no_server_is_refused() -> None:
    wrong = RtcSettings(ice_servers=(IceServer(urls=("http://example.org",)),))
    with pytest.raises(InvalidInputError, match="ice_servers"):
        ice.helper_urls(wrong)
