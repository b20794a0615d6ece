// A fragmented mp4 that is watched while it arrives, where the browser can; from its end on otherwise.

const MARGIN_S = 0.6;

/** RFC 6381 codecs of the file, read out of its first bytes; null while the index has not come. */
export function codecsOf(bytes) {
  const find = (name) => {
    const [a, b, c, d] = [...name].map((letter) => letter.charCodeAt(0));
    for (let i = 0; i + 12 < bytes.length; i += 1) {
      if (bytes[i] === a && bytes[i + 1] === b && bytes[i + 2] === c && bytes[i + 3] === d) return i;
    }
    return -1;
  };
  const at = find("avcC");
  if (at < 0) return null;
  const hex = (byte) => byte.toString(16).padStart(2, "0");
  const video = `avc1.${hex(bytes[at + 5])}${hex(bytes[at + 6])}${hex(bytes[at + 7])}`;
  return find("mp4a") < 0 ? video : `${video}, mp4a.40.2`;
}

/** Whether playing may begin: made seconds, total seconds, seconds it took; it must not run dry later. */
export function mayStart(made, total, took) {
  if (made >= total - 0.05) return true;
  const rate = made / Math.max(took, 0.001);
  return made >= MARGIN_S + Math.max(0, 1 - rate) * total;
}

export class StreamPlayer {
  /** `onMade(seconds)` hears how much can be watched; `onPlaying()` that it began. */
  constructor(video, totalS, { onMade, onPlaying }) {
    Object.assign(this, { video, totalS, onMade, onPlaying });
    this.began = performance.now();
    this.head = new Uint8Array(0);
    this.queue = [];
    this.state = "head"; // head -> live | off
    this.ended = false;
    this.playing = false;
  }

  push(bytes) {
    if (this.state === "head") this.#readHead(bytes);
    else if (this.state === "live") this.queue.push(bytes);
    this.#pump();
  }

  /** Everything has come. Gives false when this browser could not follow, so that the whole file must be set instead. */
  end() {
    this.ended = true;
    this.#pump();
    return this.state === "live";
  }

  close() {
    this.state = "off";
    if (this.url) URL.revokeObjectURL(this.url);
  }

  #readHead(bytes) {
    const joined = new Uint8Array(this.head.length + bytes.length);
    joined.set(this.head);
    joined.set(bytes, this.head.length);
    this.head = joined;
    const codecs = codecsOf(joined);
    if (codecs === null) return;
    const kind = `video/mp4; codecs="${codecs}"`;
    const Source = globalThis.ManagedMediaSource ?? globalThis.MediaSource;
    if (!Source || !Source.isTypeSupported(kind)) {
      this.state = "off";
      return;
    }
    this.state = "live";
    this.queue.push(joined);
    this.source = new Source();
    this.video.disableRemotePlayback = true;
    this.source.addEventListener("sourceopen", () => {
      this.buffer = this.source.addSourceBuffer(kind);
      this.source.duration = this.totalS;
      this.buffer.addEventListener("updateend", () => { this.#watch(); this.#pump(); });
      this.#pump();
    }, { once: true });
    this.url = URL.createObjectURL(this.source);
    this.video.src = this.url;
  }

  #pump() {
    if (this.state !== "live" || !this.buffer || this.buffer.updating || this.source.readyState !== "open") return;
    const next = this.queue.shift();
    try {
      if (next) this.buffer.appendBuffer(next);
      else if (this.ended) this.source.endOfStream();
    } catch {
      this.state = "off"; // the browser's memory for media is full: the whole file is set at the end
    }
  }

  #watch() {
    const { buffered } = this.buffer;
    const made = buffered.length ? buffered.end(buffered.length - 1) : 0;
    this.onMade(made);
    if (!this.playing && mayStart(made, this.totalS, (performance.now() - this.began) / 1000)) {
      this.playing = true;
      this.onPlaying();
      this.video.play().catch(() => {}); // not allowed to start by itself: the controls are there
    }
  }
}
