// <live-anchor src="https://service.example/watch/SESSION"></live-anchor>: a live session to watch, in one file for any page.
// `src` is a session's watch page or any WHEP address. Optional: `token` (sent as a bearer token), `muted`, `label` (what the picture shows).
// Dispatches "statechange" with detail {state: connecting | live | waiting | over | failed, text}.

const GATHER_MS = 1000;
const CONNECT_MS = 15000;
const LOOK_MS = 500;
const SILENT_MS = 3000;
const WAITS_S = [1, 2, 4, 8, 16];
const LEAVE_MS = 5000;

const STYLE = `
:host { color-scheme: inherit; display: block; position: relative; overflow: hidden; min-height: 120px; background: light-dark(#e6ebf2, #0a1422); font: 16px/1.4 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
:host([hidden]), [hidden] { display: none !important; }
video { display: block; width: 100%; height: 100%; object-fit: contain; }
.low { position: absolute; inset: auto 0 0 0; display: flex; flex-wrap: wrap; align-items: center; justify-content: center; gap: 12px; padding: 16px max(16px, env(safe-area-inset-right)) max(16px, env(safe-area-inset-bottom)) max(16px, env(safe-area-inset-left)); pointer-events: none; }
.low > * { pointer-events: auto; }
p { margin: 0; flex: 0 1 auto; padding: 10px 16px; border-radius: 12px; background: light-dark(#ffffff, #161e2a); color: light-dark(#16202f, #e8edf5); box-shadow: 0 1px 6px #0005; overflow-wrap: anywhere; }
p.bad { background: light-dark(#fdeeee, #351a20); color: light-dark(#a3212b, #ff9d9d); }
button { flex: none; min-width: 48px; min-height: 48px; padding: 10px 18px; border: 1px solid light-dark(#8592a8, #65748c); border-radius: 24px; background: light-dark(#ffffff, #161e2a); color: light-dark(#16202f, #e8edf5); font: inherit; font-weight: 600; cursor: pointer; }
button:focus-visible { outline: 3px solid light-dark(#1c5d99, #6db3f2); outline-offset: 2px; }
`;

const WORDS = {
  connecting: "Connecting…",
  waiting: "The connection was lost. Trying again…",
  over: "This broadcast is over.",
};

/** Why watching is not possible; `retry` says whether that may change by itself. */
class Refusal extends Error {
  constructor(text, { retry = false, over = false } = {}) {
    super(text);
    Object.assign(this, { retry, over });
  }
}

function refusalOf(status) {
  if (status === 404 || status === 409 || status === 410) return new Refusal(WORDS.over, { over: true });
  if (status === 401 || status === 403) return new Refusal("This broadcast needs a key or a token that allows it.");
  if (status === 406) return new Refusal("This browser cannot show the video: it does not take H.264.");
  if (status === 503) return new Refusal("All places for viewers are taken. Trying again…", { retry: true });
  return new Refusal("The service cannot show this broadcast now. Trying again…", { retry: status === 429 || status >= 500 });
}

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

class LiveAnchor extends HTMLElement {
  static observedAttributes = ["src", "token", "label"];

  /** In place of fetch(), for pages that sign requests in their own way. */
  fetcher = null;
  #run = 0; // the present way to watch; an older one ends when it sees another number
  #pc = null;
  #session = "";
  #state = "";

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet(); // no security policy of the page's keeps it out
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    root.innerHTML = `<video playsinline></video><div class="low"><p role="status" hidden></p><button type="button" hidden></button></div>`;
    [this.video, this.note, this.sound] = ["video", "p", "button"].map((name) => root.querySelector(name));
    this.sound.addEventListener("click", () => {
      this.video.muted = !this.video.muted;
      this.video.play();
    });
    this.video.addEventListener("volumechange", () => this.#showSound());
    this.leave = () => this.#leave();
  }

  get state() { return this.#state; }

  connectedCallback() {
    this.video.muted = this.hasAttribute("muted");
    addEventListener("pagehide", this.leave);
    this.#restart();
  }

  disconnectedCallback() {
    removeEventListener("pagehide", this.leave);
    this.#run += 1;
    this.#leave();
  }

  attributeChangedCallback(name) {
    if (name === "label") this.video.setAttribute("aria-label", this.getAttribute("label"));
    else if (this.isConnected) this.#restart();
  }

  #restart() {
    this.#run += 1;
    this.#leave();
    if (this.getAttribute("src")) this.#watch(this.#run);
  }

  async #watch(run) {
    let tries = 0;
    while (run === this.#run) {
      try {
        if (!tries) this.#tell("connecting");
        await this.#connect(run);
        tries = 0;
        await this.#lost(run);
        this.#tell("waiting");
      } catch (error) {
        if (run !== this.#run) return;
        const known = error instanceof Refusal ? error : new Refusal("The service cannot be reached. Trying again…", { retry: true });
        if (known.over || !known.retry) {
          this.#leave();
          this.#tell(known.over ? "over" : "failed", known.message);
          return;
        }
        this.#tell("waiting", known.message);
      }
      this.#leave();
      await pause(1000 * WAITS_S[Math.min(tries, WAITS_S.length - 1)]);
      tries += 1;
    }
  }

  /** Where to post the offer: `src` itself, or what a watch page stands for. */
  get #whep() {
    const url = new URL(this.getAttribute("src"), document.baseURI);
    url.pathname = url.pathname.replace(/\/watch\/([^/]+)\/?$/, "/stream/whep/$1");
    return url;
  }

  #ask(url, options = {}) {
    const headers = { ...options.headers };
    if (this.getAttribute("token")) headers.Authorization = `Bearer ${this.getAttribute("token")}`;
    return (this.fetcher ?? fetch)(url, { ...options, headers });
  }

  async #iceServers(whep) {
    if (!whep.pathname.includes("/stream/whep/")) return []; // another WHEP service
    const answer = await this.#ask(new URL("../webrtc/ice-servers", whep));
    if (!answer.ok) return []; // what the offer is told matters more
    return (await answer.json()).ice_servers.map((one) => Object.fromEntries(Object.entries(one).filter(([, value]) => value !== null)));
  }

  async #connect(run) {
    if (!globalThis.RTCPeerConnection) throw new Refusal("This browser has no WebRTC. Another one may show the broadcast.");
    const whep = this.#whep;
    const pc = new RTCPeerConnection({ iceServers: await this.#iceServers(whep), bundlePolicy: "max-bundle" });
    if (run !== this.#run) return pc.close();
    this.#pc = pc;
    const stream = new MediaStream();
    pc.addEventListener("track", ({ track }) => stream.addTrack(track));
    for (const kind of ["video", "audio"]) pc.addTransceiver(kind, { direction: "recvonly" });
    await pc.setLocalDescription();
    const gathered = new Promise((resolve) => {
      pc.addEventListener("icegatheringstatechange", () => { if (pc.iceGatheringState === "complete") resolve(); });
    });
    await Promise.race([gathered, pause(GATHER_MS)]);
    const answer = await this.#ask(whep, { method: "POST", headers: { "Content-Type": "application/sdp" }, body: pc.localDescription.sdp });
    if (!answer.ok) throw refusalOf(answer.status);
    const where = answer.headers.get("Location");
    const session = where ? new URL(where, whep).href : "";
    if (run !== this.#run || pc !== this.#pc) {
      this.#end(session);
      return pc.close();
    }
    this.#session = session;
    await pc.setRemoteDescription({ type: "answer", sdp: await answer.text() });
    this.video.srcObject = stream;
    const up = new Promise((resolve, reject) => {
      pc.addEventListener("connectionstatechange", () => {
        if (pc.connectionState === "connected") resolve();
        else if (pc.connectionState !== "connecting") reject(new Refusal("The network lets no media through. Trying again…", { retry: true }));
      });
      setTimeout(() => reject(new Refusal("The network lets no media through. Trying again…", { retry: true })), CONNECT_MS);
    });
    await up;
    await this.#play();
    this.#tell("live");
  }

  /** With sound where the browser allows it, else without: the button then asks. */
  async #play() {
    try {
      await this.video.play();
    } catch (error) {
      if (error.name !== "NotAllowedError") return; // another source came in between
      this.video.muted = true;
      await this.video.play().catch(() => {});
    }
    this.#showSound();
  }

  /** Resolves when pictures have stopped coming. */
  async #lost(run) {
    const pc = this.#pc;
    let packets = 0;
    let heardAt = performance.now();
    while (run === this.#run && pc && !["failed", "closed"].includes(pc.connectionState)) {
      let now = 0;
      for (const one of (await pc.getStats()).values()) if (one.type === "inbound-rtp") now += one.packetsReceived;
      if (now !== packets) heardAt = performance.now();
      packets = now;
      if (performance.now() - heardAt > SILENT_MS) return;
      await pause(LOOK_MS);
    }
  }

  #leave() {
    const [pc, session] = [this.#pc, this.#session];
    [this.#pc, this.#session] = [null, ""];
    if (session) Promise.race([this.#end(session), pause(LEAVE_MS)]).then(() => pc?.close());
    else pc?.close();
  }

  /** A courtesy: a viewer that is gone is noticed anyway. */
  #end(session) {
    return session ? this.#ask(session, { method: "DELETE", keepalive: true }).catch(() => {}) : Promise.resolve();
  }

  #showSound() {
    this.sound.textContent = this.video.muted ? "Switch the sound on" : "Sound off";
    this.sound.hidden = this.#state !== "live";
  }

  #tell(state, text = WORDS[state] ?? "") {
    this.#state = state;
    this.note.textContent = text;
    this.note.hidden = !text;
    this.note.className = state === "failed" ? "bad" : "";
    this.note.setAttribute("role", state === "failed" ? "alert" : "status");
    this.video.hidden = state === "over" || state === "failed";
    this.#showSound();
    this.dispatchEvent(new CustomEvent("statechange", { detail: { state, text } }));
  }
}

customElements.define("live-anchor", LiveAnchor);
