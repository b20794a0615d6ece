// Statistics over the picture: numbers from both ends, and a plot of the delay.

import { byId, make, show } from "./dom.js";

const EVERY_MS = 1000;
const KEPT = 90;
const SERIES = [["speech to picture", "#6db3f2"], ["round trip", "#ffd479"], ["waits here", "#8fe3b0"]];

export class Overlay {
  /** `connection()` gives the Connection, or null. */
  constructor(connection) {
    this.connection = connection;
    this.rows = [];
    byId("stats").addEventListener("change", () => this.#switched());
  }

  #switched() {
    const on = byId("stats").checked;
    show(byId("overlay"), on && this.connection() !== null);
    clearInterval(this.timer);
    if (on) {
      this.timer = setInterval(() => this.#update(), EVERY_MS);
      this.#update();
    }
  }

  /** A session began or ended. */
  restart() {
    this.rows = [];
    this.last = null;
    this.#switched();
  }

  async #update() {
    const connection = this.connection();
    if (!connection?.id) return;
    let server;
    try {
      server = await connection.serverStats();
    } catch {
      return; // the session says itself when it is over
    }
    const client = await this.#client(connection.pc);
    this.rows.push([server.speech_to_picture_ms ?? null, client.roundTripMs, client.waitsMs]);
    this.rows.splice(0, this.rows.length - KEPT);
    this.#numbers(server, client);
    this.#plot();
  }

  async #client(pc) {
    const found = { fps: 0, kbps: 0, decoded: 0, lost: 0, roundTripMs: null, waitsMs: null, apartMs: null };
    const playout = {};
    for (const one of (await pc.getStats()).values()) {
      if (one.type === "inbound-rtp") playout[one.kind] = one.estimatedPlayoutTimestamp;
      if (one.type === "inbound-rtp" && one.kind === "video") {
        const { framesDecoded, framesDropped, bytesReceived, jitterBufferDelay, jitterBufferEmittedCount, timestamp, packetsLost } = one;
        const before = this.last;
        this.last = { framesDecoded, bytesReceived, jitterBufferDelay, jitterBufferEmittedCount, timestamp };
        Object.assign(found, { decoded: framesDecoded, dropped: framesDropped, lost: packetsLost });
        if (!before) continue;
        const seconds = (timestamp - before.timestamp) / 1000 || 1;
        found.fps = (framesDecoded - before.framesDecoded) / seconds;
        found.kbps = ((bytesReceived - before.bytesReceived) * 8) / 1000 / seconds;
        const emitted = jitterBufferEmittedCount - before.jitterBufferEmittedCount;
        if (emitted > 0) found.waitsMs = (1000 * (jitterBufferDelay - before.jitterBufferDelay)) / emitted;
      } else if (one.type === "candidate-pair" && one.nominated && one.currentRoundTripTime !== undefined) {
        found.roundTripMs = 1000 * one.currentRoundTripTime;
      }
    }
    const apart = playout.video - playout.audio; // both on the server's clock, by its sender reports
    if (Number.isFinite(apart)) found.apartMs = apart;
    return found;
  }

  #numbers(server, client) {
    const ms = (value) => (value === null || value === undefined ? "–" : `${Math.round(value)} ms`);
    const rows = {
      "Frames sent": `${server.fps_out.toFixed(1)} /s`, "Frames shown": `${client.fps.toFixed(1)} /s`,
      "Bit rate": `${Math.round(client.kbps)} kbit/s`, "First picture": ms(server.first_frame_ms),
      "Speech to picture": ms(server.speech_to_picture_ms), "Round trip": ms(client.roundTripMs),
      "Sound to picture": ms(client.apartMs), "Packets lost": String(client.lost),
      Repeated: String(server.frames_repeated), Dropped: String(server.frames_dropped), Epoch: String(server.epoch),
    };
    byId("numbers").replaceChildren(...Object.entries(rows).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  }

  #plot() {
    const canvas = byId("plot");
    const pen = canvas.getContext("2d");
    const scale = devicePixelRatio;
    const { clientWidth: width, clientHeight: height } = canvas;
    canvas.width = width * scale;
    canvas.height = height * scale;
    pen.scale(scale, scale);
    const highest = Math.max(100, ...this.rows.flat().filter((value) => value !== null)) * 1.1;
    pen.font = "10px system-ui, sans-serif";
    for (const share of [0.5, 1]) {
      const y = height - share * (height - 14);
      pen.strokeStyle = "#ffffff2e";
      pen.beginPath();
      pen.moveTo(0, y);
      pen.lineTo(width, y);
      pen.stroke();
      pen.fillStyle = "#b8c4d6";
      pen.fillText(`${Math.round(share * highest)} ms`, 2, y - 2);
    }
    let legendAt = 52;
    SERIES.forEach(([name, colour], index) => {
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = 1.6;
      pen.beginPath();
      this.rows.forEach((row, at) => {
        if (row[index] === null) return;
        pen.lineTo((at / (KEPT - 1)) * width, height - (row[index] / highest) * (height - 14));
      });
      pen.stroke();
      pen.fillText(name, legendAt, 10);
      legendAt += pen.measureText(name).width + 14;
    });
  }
}
