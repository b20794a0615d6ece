"""A session's transport against real aiortc clients in the same process, over the machine's own network."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from aiortc.rtp import RTCP_PSFB_APP, RTCP_PSFB_FIR, RtcpPsfbPacket, pack_remb_fci

from kernels.errors import InvalidInputError
from pipeline.live.contracts import LiveEvent
from pipeline.live.settings import RtcSettings
from pipeline.webrtc.errors import NoCommonCodecError, PeerClosedError
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.peer import LivePeer
from pipeline.webrtc.sdp import TrickledCandidate
from tests.support.rtc import (
    RTC,
    Client,
    KeyFrames,
    Ticker,
    Tone,
    connected,
    number_of,
    session,
    until,
)


def numbers(client: Client) -> list[int]:
    return [number_of(frame.to_ndarray()[: frame.height]) for frame in client.pictures]


@pytest.mark.parametrize("fps", [25, 50])
def test_every_picture_arrives_in_its_turn_with_its_time(fps: int) -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        peer = await connected(hub, client)
        await until(lambda: len(client.pictures) > fps)
        got = numbers(client)
        assert got[-1] > got[0] and sorted(set(got)) == got
        steps = np.diff([frame.pts for frame in client.pictures])
        assert np.array_equal(steps, np.diff(got) * (90_000 // fps)), "time does not follow the picture's number"
        left_out = hub.stats().frames_dropped + peer.stats().units_dropped
        assert left_out + len(got) >= got[-1] - got[0] + 1
        await until(lambda: abs(peer.stats().fps_out - fps) <= 2)
        await peer.close()

    session(body, fps)


def test_pictures_leave_soon_after_the_voice_of_their_moment() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        peer = await connected(hub, client)
        assert peer.stats().send_offset_ms is None
        await until(lambda: len(client.pictures) > 10 and len(client.sound) > 10)
        await until(
            lambda: -20 < peer.stats().send_offset_ms < 500
        )  # encoding: 10 ms, on a busy machine more for a while
        await peer.close()

    session(body)


def test_picture_and_voice_share_one_clock() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        began = asyncio.get_running_loop().time()
        peer = await connected(hub, client)
        await until(lambda: min(len(reports) for reports in client.reports.values()) >= 2)
        zero = {}
        for kind, clock_hz in (("video", 90_000), ("audio", 48_000)):
            hook = peer._sender.hooks[kind]  # type: ignore[index]
            origin = hook._origin
            assert origin is not None
            places = [(ntp, ((rtp - origin + 2**31) & 0xFFFFFFFF) - 2**31) for ntp, rtp in client.reports[kind]]
            zero[kind] = [ntp / 2**32 - place / clock_hz for ntp, place in places]
        everything = zero["video"] + zero["audio"]
        assert max(everything) - min(everything) < 1e-6, "the two tracks do not begin at the same instant"
        lasted_ms = 1000 * (asyncio.get_running_loop().time() - began)
        assert peer.stats().round_trip_ms is None or 0 <= peer.stats().round_trip_ms < lasted_ms
        await peer.close()

    session(body)


def test_a_click_and_a_flash_made_together_arrive_together() -> None:
    """The voice clicks in the sample with which every fiftieth picture begins; both are placed by sender reports."""
    every_s = 2.0

    def voice(start: int) -> np.ndarray:
        pcm = np.zeros(640, np.float32)
        if start % (50 * 640) == 0:
            pcm[:8] = 0.9
        return pcm

    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        first: dict[str, int] = {}
        peer = LivePeer(hub, RTC)
        await client.accept(await peer.answer(await client.offer()))
        for receiver in client.pc.getReceivers():
            remember_first(receiver, first)
        await until(lambda: min(len(reports) for reports in client.reports.values()) >= 1)

        def instant(kind: str, pts: int, clock_hz: int) -> float:
            ntp, rtp = client.reports[kind][-1]
            place = (((first[kind] + pts - rtp) + 2**31) & 0xFFFFFFFF) - 2**31
            return ntp / 2**32 + place / clock_hz

        flashes: list[float] = []
        clicks: list[float] = []
        looked = [0, 0]

        def pairs() -> list[float]:
            """Seconds from every flash to the click of the same moment; on a busy machine one of them may be left out."""
            for frame in client.pictures[looked[0] :]:
                if number_of(frame.to_ndarray()[: frame.height]) % 50 == 0:
                    flashes.append(instant("video", frame.pts, 90_000))
            for frame in client.sound[looked[1] :]:
                wave = np.abs(frame.to_ndarray()[0, ::2].astype(int))
                if wave.max() > 3000:
                    clicks.append(instant("audio", frame.pts + int(np.argmax(wave)), 48_000))
            looked[:] = len(client.pictures), len(client.sound)
            return [heard - seen for seen in flashes for heard in clicks if abs(heard - seen) < every_s / 2]

        await until(lambda: bool(pairs()))
        assert max(abs(one) for one in pairs()) < 0.002
        await peer.close()

    session(body, voice=voice)


def remember_first(receiver: Any, first: dict[str, int]) -> None:
    """aiortc counts decoded frames from the first one's RTP time; keep that."""
    kind, stock = receiver._RTCRtpReceiver__kind, receiver._handle_rtp_packet

    async def handle(packet: Any, arrival_time_ms: int) -> None:
        first.setdefault(kind, packet.timestamp)
        await stock(packet, arrival_time_ms)

    receiver._handle_rtp_packet = handle


@pytest.mark.parametrize("how", ["pli", "fir"])
def test_a_request_for_a_key_frame_is_answered_by_the_next_picture(how: str) -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        watch = KeyFrames(hub)
        peer = await connected(hub, client)
        await until(lambda: len(client.pictures) > 10)
        watch.asked_at.clear()
        receiver, sender = client.video_receiver, peer._sender.hooks["video"].sender
        if how == "pli":
            await receiver._send_rtcp_pli(sender._ssrc)
        else:
            packet = RtcpPsfbPacket(
                fmt=RTCP_PSFB_FIR, ssrc=1, media_ssrc=sender._ssrc, fci=sender._ssrc.to_bytes(4, "big") + b"\x01\0\0\0"
            )
            await receiver._send_rtcp(packet)
        assert await watch.late() <= 4, "the next one would come after 50"
        assert peer.stats().key_requests >= 1
        await peer.close()

    session(body)


def test_an_estimate_of_the_network_moves_the_bit_rate_and_leaves_with_its_viewer() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        peer = await connected(hub, client)
        await until(lambda: len(client.pictures) > 2)
        client.video_receiver._RTCRtpReceiver__remote_bitrate_estimator = (
            None  # its own estimates would come in between
        )
        fci = pack_remb_fci(1_300_000, [peer._sender.hooks["video"].sender._ssrc])
        await client.video_receiver._send_rtcp(RtcpPsfbPacket(fmt=RTCP_PSFB_APP, ssrc=1, media_ssrc=0, fci=fci))
        await until(lambda: hub.stats().bitrate_kbps == 1250)
        assert peer.stats().estimate_kbps == pytest.approx(1300, rel=0.01)
        await peer.close()
        assert hub._rate._viewers == {}

    session(body, rtc=RtcSettings(start_kbps=2500))


def test_the_microphone_arrives_with_its_level_and_count() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        heard: list[np.ndarray] = []
        places: list[int] = []

        def take(pcm: np.ndarray, place: int, age_s: float) -> int:
            heard.append(pcm)
            places.append(place)
            return 640

        def steady() -> bool:
            """A second of the tone as it was made: stereo must not come out 3 dB too loud. A busy machine leaves holes at times."""
            last = np.concatenate([np.zeros(0, np.float32), *heard])[12_000:][-48_000:]
            if len(last) < 48_000:
                return False
            level, tone = np.sqrt(2 * np.mean(last.astype(float) ** 2)), np.argmax(np.abs(np.fft.rfft(last)))
            return bool(abs(level - 0.5) < 0.03 and abs(tone - 440) <= 1)

        peer = await connected(hub, client, on_microphone=take)
        await until(steady)
        ends = np.add(places, [len(block) for block in heard])
        assert places[0] == 0 and (np.array(places[1:]) >= ends[:-1]).all()
        stats = peer.stats().microphone
        assert stats is not None and stats.packets > 50 and stats.broken == 0
        receiver = next(one for one in peer._pc.getReceivers() if one._RTCRtpReceiver__kind == "audio")  # type: ignore[attr-defined]
        assert receiver.track._queue.qsize() == 0, "aiortc must not queue what nobody reads"
        await peer.close()

    session(body, client=lambda: Client(microphone=Tone(layout="stereo")))


@pytest.mark.parametrize(
    ("audio_first", "data_first", "order"),
    [(True, False, ["audio", "video", "application"]), (False, True, ["application", "video", "audio"])],
)
def test_sections_may_come_in_any_order(audio_first: bool, data_first: bool, order: list[str]) -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        heard: list[int] = []

        def take(samples: np.ndarray, place: int, age_s: float) -> int:
            heard.append(len(samples))
            return 640

        peer = LivePeer(hub, RTC, on_microphone=take)
        if not data_first:
            client.channel()
        offer = await client.offer()
        if data_first:
            client.channel()  # aiortc as a client puts data first only where no channel was made before
        answer = await peer.answer(offer)
        assert [line.split()[0][2:] for line in answer.splitlines() if line.startswith("m=")] == order
        await client.accept(answer)
        hub.event(LiveEvent("connected", "s", 0, 0.0))
        await until(lambda: len(client.pictures) > 5 and len(client.sound) > 5 and sum(heard) > 9600)
        await until(lambda: len(client.messages) == 1)
        await peer.close()

    session(body, client=lambda: Client(microphone=Tone(), audio_first=audio_first, data_first=data_first))


def test_without_a_microphone_none_is_asked_for_and_without_echo_no_voice_is_sent() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        peer = LivePeer(hub, RTC, microphone=False)
        answer = await peer.answer(await client.offer())
        audio = answer[answer.index("m=audio") :]
        assert "a=inactive" in audio
        await client.accept(answer)
        await until(lambda: len(client.pictures) > 5)
        assert not client.sound
        await peer.close()

    session(body, client=lambda: Client(microphone=Tone()), echo=False)


def test_a_camera_and_a_second_voice_are_turned_off() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        client.pc.addTransceiver("video", direction="sendonly")
        client.pc.addTrack(Tone())
        peer = LivePeer(hub, RTC, on_microphone=lambda samples, place, age_s: 0)
        answer = await peer.answer(await client.offer())
        sections = answer.split("m=")[1:]
        directions = [next(line for line in one.splitlines() if line in DIRECTIONS) for one in sections[:4]]
        assert directions == ["a=sendonly", "a=sendrecv", "a=inactive", "a=inactive"]
        await client.accept(answer)
        await until(lambda: len(client.pictures) > 5)
        await peer.close()

    session(body, client=lambda: Client(microphone=Tone(), video="sendrecv"))


DIRECTIONS = ("a=sendonly", "a=recvonly", "a=sendrecv", "a=inactive")


def test_the_answer_names_h264_only_with_our_level_as_constrained_baseline() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        for transceiver in client.pc.getTransceivers():
            transceiver.setCodecPreferences([])
        peer = LivePeer(hub, RTC)
        offer = await client.offer()
        assert "VP8" in offer
        answer = await peer.answer(offer)
        assert "VP8" not in answer and "profile-level-id=42e01e" in answer and hub.level == "3.0"
        apts = {line.split("apt=")[1] for line in answer.splitlines() if "apt=" in line}
        listed = set(answer[answer.index("m=video") :].splitlines()[0].split()[3:])
        assert apts <= listed, "a retransmission of a codec that is not listed fails in browsers"
        await peer.close()

    session(body)


def test_no_common_codec_and_rubbish_are_refused_and_leave_nothing() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        offer = await client.offer()
        for text, error in (
            (offer.replace("H264", "AV1"), NoCommonCodecError),
            (offer.replace("packetization-mode=1", "packetization-mode=2"), NoCommonCodecError),
            (offer.replace("opus/48000/2", "L16/48000/2"), NoCommonCodecError),
            ("rubbish", InvalidInputError),
            (offer.replace("a=rtcp-mux\r\n", ""), InvalidInputError),
        ):
            peer = LivePeer(hub, RTC)
            with pytest.raises(error):
                await peer.answer(text)
            assert peer.state == "closed"
            with pytest.raises(PeerClosedError):
                await peer.answer(offer)

    session(body)


def test_candidates_may_trickle_and_names_are_left_out() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        offer = await client.offer()
        lines = offer.splitlines()
        found = [line[2:] for line in lines if line.startswith("a=candidate:")]
        bare = "\r\n".join(
            line for line in lines if not line.startswith(("a=candidate:", "a=end-of-candidates"))
        )  # fmt: skip
        peer = LivePeer(hub, RTC)
        with pytest.raises(PeerClosedError):
            await peer.add_candidates([None])
        answer = await peer.answer(bare + "\r\n")
        with pytest.raises(InvalidInputError):
            await peer.add_candidates([TrickledCandidate("candidate:1 1 udp 1 192.0.2.1 1 typ host")])
        with pytest.raises(InvalidInputError):
            await peer.add_candidates([TrickledCandidate("candidate:1 1 udp y 192.0.2.1 1 typ host", "0")])
        hidden = TrickledCandidate("candidate:9 1 udp 1 0b7a9a1c.local 5 typ host", "0")
        await peer.add_candidates([hidden, *(TrickledCandidate(one, "0", 0) for one in found), None])
        await peer.add_candidates([None, TrickledCandidate("")])
        await client.accept(answer)
        await until(lambda: len(client.pictures) > 3)
        await peer.close()

    session(body)


def test_an_offer_without_any_candidate_still_connects() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        offer = await client.offer()
        bare = "\r\n".join(line for line in offer.splitlines() if "candidate" not in line) + "\r\n"
        peer = LivePeer(hub, RTC)
        await client.accept(await peer.answer(bare))
        await until(lambda: peer.state == "connected")
        await peer.close()

    session(body)


def test_events_go_to_the_clients_channel_also_those_from_before_it_opened() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        said: list[dict[str, Any]] = []
        channel = client.channel()
        peer = LivePeer(hub, RTC, on_message=said.append)
        answer = await peer.answer(await client.offer())
        hub.event(LiveEvent("speaking_started", "s", 0, 0.5, utterance_id="u"))
        await client.accept(answer)
        await until(lambda: len(client.messages) == 1)
        epoch = hub.epoch_ntp()
        assert epoch is not None
        assert json.loads(client.messages[0]) == {
            "ntp_s": pytest.approx(epoch / 2**32 + 0.5, abs=1e-6),
            "name": "speaking_started",
            "session_id": "s",
            "epoch": 0,
            "at_s": 0.5,
            "utterance_id": "u",
        }
        for text in ('{"type": "interrupt"}', "no json", "[1]", "{" * 20_000, "x" * 20_000):
            channel.send(text)
        channel.send(b'{"type": "bytes"}')
        await until(lambda: len(said) == 2)
        assert said == [{"type": "interrupt"}, {"type": "bytes"}]
        hub.event(LiveEvent("speaking_finished", "s", 1, 1.5, position_s=0.9, interrupted=True))
        await until(lambda: len(client.messages) == 2)
        assert json.loads(client.messages[1])["interrupted"] is True
        await peer.close()

    session(body)


def test_a_client_that_opens_no_channel_gets_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.webrtc.peer.OWN_CHANNEL_AFTER_S", 0.2)

    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        labels: list[str] = []

        def opened(channel: Any) -> None:
            labels.append(channel.label)
            channel.on("message", client.messages.append)

        client.pc.on("datachannel", opened)
        channel = client.pc.createDataChannel("never", negotiated=True, id=30)
        peer = await connected(hub, client)
        hub.event(LiveEvent("connected", "s", 0, 0.0))
        await until(lambda: len(client.messages) == 1)
        assert labels == ["events"] and channel.label == "never"
        await peer.close()

    session(body)


def test_a_slow_viewer_jumps_to_a_key_frame_and_does_not_slow_the_other() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        peer = await connected(hub, client)
        stuck = hub.subscribe("video")  # a viewer that never sends what it gets
        await until(lambda: stuck.overflows >= 2)
        assert len(stuck) <= 8 and stuck.dropped >= 9
        assert peer.stats().queue_overflows == 0
        got = numbers(client)
        left_out = hub.stats().frames_dropped + peer.stats().units_dropped
        assert len(got) + left_out >= got[-1] - got[0] - 1
        hub.unsubscribe(stuck)
        await peer.close()

    session(body, 50)


def test_the_public_address_stands_in_the_answer() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        peer = LivePeer(hub, RtcSettings(public_ip="198.51.100.9"))
        answer = await peer.answer(await client.offer())
        assert "198.51.100.9" in answer and "c=IN IP4 198.51.100.9" in answer
        await peer.close()

    session(body)
