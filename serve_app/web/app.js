// The page: two steps, one button, a video that is watched while it is made.

import { byId, clockText, raiseProblem, show, showProblem } from "./dom.js";
import { asProblem, call, getJson, newRequestId } from "./api.js";
import { Presenters } from "./presenters.js";
import { Expression } from "./expression.js";
import { Speech } from "./speech.js";
import { StreamPlayer } from "./player.js";
import { finished } from "./finish_mp4.js";
import { showPicture } from "./session.js";
import { installTheme } from "./theme.js";
import { showVersion } from "./version.js";

const POLL_MS = 700;
const BOXES = { audio: "speech-error", prompt: "speech-error", portrait: "presenter-error", avatar_id: "presenter-error" };
const video = byId("video");
let running = null;
let fileUrl = null;

const presenters = new Presenters((one) => {
  const poster = byId("poster");
  if (one) showPicture(poster, one.preview_url);
  if (one && !running && !fileUrl) byId("screen").style.setProperty("--ratio", one.width / one.height);
  poster.alt = one ? `Presenter ${one.name}` : "";
  if (!running && !fileUrl) show(poster, Boolean(one));
});
const speech = new Speech(update);
const expression = new Expression(byId("expression-box"));

function update() {
  const ready = speech.ready && running === null;
  byId("make").disabled = !ready;
  byId("make-hint").textContent = running || speech.ready ? "" : "Add speech or text first.";
  show(byId("cancel"), running !== null);
  show(byId("make"), running === null);
}

function progress(share, text) {
  byId("progress").value = share;
  byId("progress-share").textContent = `${Math.round(share * 100)} %`;
  if (byId("progress-text").textContent !== text) byId("progress-text").textContent = text;
}

function reset() {
  for (const id of ["video-error", "speech-error", "presenter-error"]) showProblem(byId(id), null);
  if (fileUrl) URL.revokeObjectURL(fileUrl);
  fileUrl = null;
  video.pause();
  video.removeAttribute("src");
  video.load();
  show(video, false);
  show(byId("done"), false);
  show(byId("poster"), true);
}

function form() {
  const data = new FormData();
  if (speech.file) data.append("audio", speech.file, speech.file.name || "speech");
  else data.append("prompt", speech.text);
  if (presenters.chosen && !presenters.chosen.is_default) data.append("avatar_id", presenters.chosen.avatar_id);
  data.append("fps", byId("fps").value);
  data.append("seed", byId("seed").value || "0");
  for (const [name, value] of Object.entries(expression.wanted())) data.append(name, value);
  data.append("stream", "true");
  return data;
}

async function run() {
  reset();
  const abort = new AbortController();
  const requestId = newRequestId();
  running = abort;
  update();
  show(byId("waiting"), true);
  byId("waiting-text").textContent = speech.file ? "Listening to the speech…" : "Finding a voice for the text…";
  show(byId("progress-box"), true);
  progress(0, "Starting");
  byId("stage").scrollIntoView({ behavior: "smooth", block: "nearest" });
  byId("cancel").focus();
  let player = null;
  let poll = 0;
  try {
    const response = await call("/generate", {
      method: "POST", body: form(), signal: abort.signal, headers: { "X-Request-Id": requestId },
    });
    const facts = factsOf(response);
    byId("screen").style.setProperty("--ratio", facts.width / facts.height);
    byId("waiting-text").textContent = "Drawing the first pictures…";
    const made = (seconds) => progress(Math.min(1, seconds / facts.duration), `Made ${clockText(seconds)} of ${clockText(facts.duration)}`);
    player = new StreamPlayer(video, facts.duration, { onMade: made, onPlaying: () => showVideo() });
    poll = setInterval(() => followWithoutPlayer(player, requestId, facts, made), POLL_MS);
    const parts = await received(response, player);
    finish(player, finished(new Uint8Array(await new Blob(parts).arrayBuffer())), facts);
  } catch (error) {
    player?.close();
    stopped(error);
  } finally {
    clearInterval(poll);
    running = null;
    show(byId("waiting"), false);
    const wasFocused = document.activeElement === byId("cancel") || document.activeElement === document.body;
    update();
    if (wasFocused) (fileUrl ? byId("download") : byId("make")).focus({ preventScroll: true });
  }
}

async function received(response, player) {
  const parts = [];
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return parts;
    parts.push(value);
    player.push(value);
  }
}

/** Where the browser cannot show a part of a file, ask the service how far it is. */
async function followWithoutPlayer(player, requestId, facts, made) {
  if (player.state === "live") return;
  try {
    const found = await getJson(`/jobs/${requestId}`);
    if (running && found.frames) made((found.frames_done / found.frames) * facts.duration);
  } catch {
    return; // progress is a courtesy; the job itself says when something is wrong
  }
}

function factsOf(response) {
  const number = (name) => Number(response.headers.get(name)) || 0;
  return {
    frames: number("x-frames"), fps: number("x-fps"), duration: number("x-duration-s") || 1,
    width: number("x-width") || 9, height: number("x-height") || 16,
  };
}

function showVideo() {
  show(video, true);
  show(byId("poster"), false);
  show(byId("waiting"), false);
}

function finish(player, file, facts) {
  fileUrl = URL.createObjectURL(file);
  if (!player.end()) {
    video.src = fileUrl;
    video.play().catch(() => {}); // not allowed to start by itself: the controls are there
  }
  showVideo();
  show(byId("progress-box"), false);
  byId("download").href = fileUrl;
  byId("facts").textContent = `${facts.duration.toFixed(1)} s, ${facts.width} × ${facts.height}, ${facts.fps} fps, ${(file.size / 1e6).toFixed(1)} MB`;
  show(byId("done"), true);
  byId("make").textContent = "Make it again";
}

function stopped(error) {
  show(byId("progress-box"), false);
  show(video, false);
  show(byId("poster"), true);
  if (error.name === "AbortError") return;
  const problem = asProblem(error);
  const box = problem.ofVoice ? "speech-error" : BOXES[problem.field] ?? "video-error";
  const again = box === "video-error" && (problem.status === 0 || problem.status >= 500) ? () => run() : undefined;
  raiseProblem(byId(box), problem, again);
}

byId("job").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!running && speech.ready) run();
});
byId("cancel").addEventListener("click", () => running?.abort());

installTheme();
update();
presenters.load();
showVersion();
