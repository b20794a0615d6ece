// The microphone -> one audio file, with a level while it records.

import { Problem } from "./api.js";
import { noMicrophone } from "./words.js";

const KINDS = ["audio/webm;codecs=opus", "audio/ogg;codecs=opus", "audio/mp4"];

export class Recorder {
  /** `onLevel(level 0..1, seconds)` is called for every picture of the screen. */
  constructor(onLevel) {
    this.onLevel = onLevel;
  }

  async start() {
    if (!navigator.mediaDevices?.getUserMedia || !globalThis.MediaRecorder) {
      throw new Problem({ title: "This browser cannot record here.", text: "Recording needs https or this machine's own address. Choose a file instead." });
    }
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: false, autoGainControl: true } });
    } catch (error) {
      throw new Problem(noMicrophone(error));
    }
    const mimeType = KINDS.find((kind) => MediaRecorder.isTypeSupported(kind));
    this.parts = [];
    this.recorder = new MediaRecorder(this.stream, mimeType ? { mimeType } : {});
    this.recorder.ondataavailable = (event) => { if (event.data.size) this.parts.push(event.data); };
    this.recorder.start(250);
    this.began = performance.now();
    this.context = new AudioContext();
    const analyser = this.context.createAnalyser();
    analyser.fftSize = 1024;
    this.context.createMediaStreamSource(this.stream).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    const tick = () => {
      if (!this.recorder) return;
      analyser.getFloatTimeDomainData(samples);
      const rms = Math.sqrt(samples.reduce((sum, x) => sum + x * x, 0) / samples.length);
      this.onLevel(Math.min(1, rms * 5), this.seconds);
      requestAnimationFrame(tick);
    };
    tick();
  }

  get seconds() {
    return (performance.now() - this.began) / 1000;
  }

  /** Ends the recording; gives the file. */
  async stop() {
    const { recorder } = this;
    const stopped = new Promise((resolve) => { recorder.onstop = resolve; });
    recorder.stop();
    await stopped;
    this.recorder = null;
    this.stream.getTracks().forEach((track) => track.stop());
    await this.context.close();
    const type = recorder.mimeType.split(";")[0] || "audio/webm";
    return new File(this.parts, `recording.${type.split("/")[1]}`, { type });
  }
}
