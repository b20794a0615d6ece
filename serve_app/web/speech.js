// Step 2: the speech, chosen or recorded, or typed.

import { acceptDrops, byId, clockText, raiseProblem, show, showProblem } from "./dom.js";
import { asProblem } from "./api.js";
import { Recorder } from "./recorder.js";

export class Speech {
  constructor(onChange) {
    this.onChange = onChange;
    this.file = null;
    this.error = byId("speech-error");
    this.typed = byId("text");
    this.typed.addEventListener("input", () => {
      showProblem(this.error, null);
      this.onChange();
    });
    const input = byId("audio");
    input.addEventListener("change", () => {
      if (input.files.length) this.set(input.files[0]);
      input.value = "";
    });
    acceptDrops(byId("speech-drop"), (file) => this.set(file));
    byId("record").addEventListener("click", () => this.#record());
    byId("stop").addEventListener("click", () => this.#stop());
    byId("remove-speech").addEventListener("click", () => { this.set(null); input.focus(); });
  }

  /** What is typed, where no file is chosen. */
  get text() {
    return this.file ? "" : this.typed.value.trim();
  }

  /** Whether there is something to say. */
  get ready() {
    return Boolean(this.file || this.text);
  }

  set(file) {
    const player = byId("speech-player");
    if (player.src) URL.revokeObjectURL(player.src);
    player.removeAttribute("src");
    this.file = file;
    showProblem(this.error, null);
    if (file) {
      player.src = URL.createObjectURL(file);
      byId("speech-name").textContent = file.name;
    }
    show(byId("speech"), file !== null);
    show(byId("speech-choice"), file === null);
    show(byId("text-choice"), file === null);
    show(byId("recording"), false);
    this.onChange(file);
  }

  async #record() {
    showProblem(this.error, null);
    this.recorder = new Recorder((level, seconds) => {
      byId("level").style.setProperty("--level", level.toFixed(3));
      byId("recording-time").textContent = clockText(seconds);
    });
    try {
      await this.recorder.start();
    } catch (error) {
      raiseProblem(this.error, asProblem(error));
      return;
    }
    show(byId("speech-choice"), false);
    show(byId("text-choice"), false);
    show(byId("recording"), true);
    byId("stop").focus();
  }

  async #stop() {
    this.set(await this.recorder.stop());
    byId("make").focus();
  }
}
