// One live session over WebRTC: offer, trickle, events, end.

import { Problem, call, getJson } from "./api.js";
import { signedFetch } from "./session.js";
import { noMicrophone } from "./words.js";

const CONNECT_MS = 15000;
const ASK_MS = 1000;
const LOOK_MS = 300;
const SILENT_MS = 1200; // pictures come ten times a second at least, while nobody speaks too
const MAX_UNHEARD = 2; // questions in a row that reached nobody
const LEAVE_MS = 5000;
const GONE = new Set(["failed", "closed"]);
const UNHEARD = new Set([undefined, "peer_lost", "peer_closed"]); // the service lost this browser, or the session

const NO_WAY = new Problem({
  title: "No connection came about.",
  text: "The network between this browser and the service lets no media through. Another network may help, or the operator can set up a TURN server.",
});
/** Why a connection ended that had come about; a new offer may help at once. */
export const CUT = new Problem({ title: "The connection was lost.", text: "Start again when the network is back." });

const NO_WEBRTC = new Problem({ title: "This browser cannot take part in live sessions.", text: "It has no WebRTC. Another browser may." });

/** The microphone, or a Problem that says what to do; `instead` is what else a person can do, where there is something. */
export async function microphone(instead = "choose a file instead") {
  if (!navigator.mediaDevices?.getUserMedia) {
    const text = `That needs https or this machine's own address.${instead ? " Choose text or audio files instead." : ""}`;
    throw new Problem({ title: "This page cannot use a microphone here.", text });
  }
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true }, video: false });
  } catch (error) {
    throw new Problem(noMicrophone(error, instead));
  }
}

export class Connection {
  /** `onEvent({name, ...})` for the session's events, and for `stalled` and `resumed`, `onEnd(problem or null)` once, `onTrack(stream)` when media comes. */
  constructor({ onEvent, onEnd, onTrack }) {
    Object.assign(this, { onEvent, onEnd, onTrack, id: "", over: false, gone: false, waiting: [], asked: new AbortController() });
    this.leave = () => this.#tell("DELETE", "", { keepalive: true });
  }

  /** Resolves with the answer when the session exists; media may still be on its way. */
  async start({ drive, avatarId, fps, echo, looks, microphone: stream }) {
    if (!globalThis.RTCPeerConnection) throw NO_WEBRTC;
    const { ice_servers: servers } = await getJson("/stream/webrtc/ice-servers");
    const iceServers = servers.map((one) => Object.fromEntries(Object.entries(one).filter(([, value]) => value !== null)));
    this.pc = new RTCPeerConnection({ iceServers });
    this.pc.addEventListener("icecandidate", ({ candidate }) => { if (candidate?.candidate) this.#trickle(candidate); });
    this.pc.addEventListener("connectionstatechange", () => this.#changed());
    this.pc.addEventListener("track", ({ track }) => {
      this.media ??= new MediaStream();
      this.media.addTrack(track);
      this.onTrack(this.media);
    });
    if (stream) this.pc.addTransceiver(stream.getAudioTracks()[0], { direction: echo ? "sendrecv" : "sendonly" });
    else if (echo) this.pc.addTransceiver("audio", { direction: "recvonly" });
    this.pc.addTransceiver("video", { direction: "recvonly" });
    const channel = this.pc.createDataChannel("events");
    channel.addEventListener("message", ({ data }) => this.#happened(JSON.parse(data)));
    await this.pc.setLocalDescription();
    const body = { sdp: this.pc.localDescription.sdp, type: "offer", drive, fps, echo, ...looks };
    if (avatarId) body.avatar_id = avatarId;
    const answer = await (await call("/stream/webrtc/offer", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    })).json();
    this.id = answer.session_id;
    if (this.over) {
      this.leave(); // ended while the answer was on its way
      return answer;
    }
    addEventListener("pagehide", this.leave);
    this.timer = setTimeout(() => this.end(NO_WAY), CONNECT_MS);
    await this.pc.setRemoteDescription({ type: answer.type, sdp: answer.sdp });
    this.#flush();
    return answer;
  }

  /** End for good; `problem` says why when it was not wanted. */
  end(problem = null) {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.timer);
    clearInterval(this.watcher);
    removeEventListener("pagehide", this.leave);
    this.asked.abort(); // what is on its way would only be told that the session is over
    if (this.id && !this.gone) {
      // Closed first, the connection would tell the service, and the word that follows would find no session.
      Promise.race([this.leave(), new Promise((resolve) => setTimeout(resolve, LEAVE_MS))]).then(() => this.pc.close());
    } else {
      this.pc?.close();
    }
    this.onEnd(problem);
  }

  async interrupt() {
    return (await call(`/stream/webrtc/${this.id}/interrupt`, { method: "POST", signal: this.asked.signal })).json();
  }

  /** Change what the face expresses; `looks` are fields of the interface. */
  async express(looks) {
    const headers = { "Content-Type": "application/json" };
    const options = { method: "POST", headers, body: JSON.stringify(looks), signal: this.asked.signal };
    return (await call(`/stream/webrtc/${this.id}/express`, options)).json();
  }

  /** `speech` is a file or text. */
  async speak(speech) {
    const form = new FormData();
    if (typeof speech === "string") form.append("text", speech);
    else form.append("audio", speech, speech.name || "speech");
    return (await call(`/stream/webrtc/${this.id}/speak`, { method: "POST", body: form, signal: this.asked.signal })).json();
  }

  serverStats() {
    return getJson(`/stream/webrtc/${this.id}/stats`, { signal: this.asked.signal });
  }

  #happened(event) {
    if (this.over) return;
    if (event.name === "ended") this.#ended(event.detail);
    else this.onEvent(event);
  }

  /** The service says that the session is over. */
  #ended(reason) {
    this.gone = true;
    if (UNHEARD.has(reason)) this.end(CUT);
    else if (reason === "connect_timeout") this.end(NO_WAY);
    else this.onEvent({ name: "ended", detail: reason });
  }

  #changed() {
    const state = this.pc.connectionState;
    if (state === "connected") {
      clearTimeout(this.timer);
      this.#connected();
    } else if (state === "disconnected") {
      this.#ask();
    } else if (GONE.has(state)) {
      this.end(this.connected ? CUT : NO_WAY);
    }
  }

  #connected() {
    if (this.connected) return;
    this.connected = true;
    Object.assign(this, { packets: 0, heardAt: performance.now(), stalled: false, unheard: 0 });
    this.watcher = setInterval(() => this.#look(), LOOK_MS);
  }

  /** Browsers take seconds to call a connection lost; packets tell sooner. */
  async #look() {
    let packets = 0;
    for (const one of (await this.pc.getStats()).values()) if (one.type === "inbound-rtp") packets += one.packetsReceived;
    if (this.over) return;
    if (packets !== this.packets) {
      Object.assign(this, { packets, heardAt: performance.now(), unheard: 0 });
      if (this.stalled) this.onEvent({ name: "resumed" });
      this.stalled = false;
    } else if (!this.stalled && performance.now() - this.heardAt > SILENT_MS) {
      this.stalled = true;
      this.onEvent({ name: "stalled" });
      this.#ask();
    }
  }

  /** Nothing comes any more: the network stumbles, or the session or its service is gone and waiting is of no use. */
  async #ask() {
    if (this.asking) return;
    this.asking = true;
    const began = performance.now();
    try {
      await getJson(`/stream/webrtc/${this.id}/stats`, { signal: AbortSignal.timeout(ASK_MS) });
      this.unheard = 0;
    } catch (error) {
      if (this.over) return;
      if (error.status === 404 || error.status === 410) this.#ended(error.reason);
      else if (error.status === 0 || error.name === "TimeoutError") this.unheard += 1;
      if (this.unheard >= MAX_UNHEARD) this.end(CUT);
    } finally {
      this.asking = false;
      const pause = Math.max(0, began + ASK_MS - performance.now()); // a question that nobody answered has waited already
      setTimeout(() => { if (!this.over && (this.stalled || this.pc.connectionState === "disconnected")) this.#ask(); }, pause);
    }
  }

  #trickle(candidate) {
    this.waiting.push(candidate.toJSON());
    if (this.id) this.#flush();
  }

  #flush() {
    const candidates = this.waiting.splice(0);
    if (this.over || !candidates.length) return;
    const headers = { "Content-Type": "application/json" };
    this.#tell("PATCH", "", { headers, body: JSON.stringify({ candidates }), signal: this.asked.signal });
  }

  /** Courtesies: when they fail, the connection itself shows what matters. */
  #tell(method, path, options) {
    return signedFetch(`/stream/webrtc/${this.id}${path}`, { method, ...options }).catch(() => {});
  }
}
