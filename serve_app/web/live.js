// The live page: one session at a time.

import { acceptDrops, byId, clockText, raiseProblem, show, showProblem } from "./dom.js";
import { Problem, asProblem } from "./api.js";
import { Connection, microphone } from "./connection.js";
import { Expression } from "./expression.js";
import { Overlay } from "./overlay.js";
import { Presenters } from "./presenters.js";
import { Retries } from "./retries.js";
import { Screen } from "./screen.js";
import { installTheme } from "./theme.js";
import { showVersion } from "./version.js";
import { ENDS, sentence } from "./words.js";

const WORDS = {
  connecting: "Connecting…", idle: "Listening", speaking: "Speaking",
  stalled: "Nothing comes from the service. Waiting for it…",
};
let connection = null;
let stream = null;
let ended = "";
let speaking = null; // id of the utterance that is heard

const retries = new Retries(() => start());
const screen = new Screen(() => retries.flows());

const overlay = new Overlay(() => connection);
const presenters = new Presenters((one) => {
  if (one) screen.present(one, !connection);
});

const expression = new Expression(byId("expression-box"), (looks) => express(looks));

const drive = () => document.querySelector("input[name=drive]:checked").value;

function state(name) {
  byId("state").textContent = WORDS[name] ?? name;
  screen.badge({ idle: "Live", speaking: "Speaking" }[name] ?? "", name === "speaking");
}

function update() {
  const live = connection !== null;
  const pushing = drive() === "push";
  show(byId("start"), !live);
  show(byId("end"), live);
  byId("interrupt").disabled = !connection?.id;
  byId("presenter-fields").disabled = byId("drive-fields").disabled = live;
  show(byId("push-box"), pushing);
  for (const id of ["audio", "text", "say"]) byId(id).disabled = !(live && connection.id && pushing);
  if (!live) byId("queue-text").textContent = pushing ? "Start first, then type or choose files." : "";
}

async function start() {
  retries.begun();
  for (const id of ["live-error", "speech-error", "presenter-error"]) showProblem(byId(id), null);
  ended = "";
  speaking = null;
  screen.wait();
  state("connecting");
  const mine = new Connection({ onEvent: happened, onEnd: (problem) => over(mine, problem), onTrack: (media) => screen.play(media) });
  connection = mine;
  update();
  byId("end").focus();
  try {
    if (drive() === "mic") stream = await microphone();
    if (mine.over) return releaseMicrophone();
    const { chosen } = presenters;
    const answer = await mine.start({
      drive: drive(), avatarId: chosen && !chosen.is_default ? chosen.avatar_id : "",
      fps: byId("smooth").checked ? 50 : 25, echo: byId("echo").checked, looks: expression.wanted(), microphone: stream,
    });
    screen.shape(answer);
    if (drive() === "push") byId("queue-text").textContent = "Nothing waits.";
    update();
    overlay.restart();
  } catch (error) {
    mine.end(asProblem(error));
  }
}

function over(which, problem) {
  if (which !== connection) return;
  connection = null;
  releaseMicrophone();
  screen.clear();
  state(ended || "Not connected");
  overlay.restart();
  const wasFocused = [byId("end"), byId("interrupt"), document.body].includes(document.activeElement);
  update();
  if (wasFocused) byId("start").focus({ preventScroll: true });
  if (retries.ended(problem)) return state("The connection was lost. Connecting again…");
  const box = { avatar_id: "presenter-error", audio: "speech-error" }[problem?.field] ?? "live-error";
  if (problem) raiseProblem(byId(box), problem, box === "live-error" ? () => start() : undefined);
}

function releaseMicrophone() {
  stream?.getTracks().forEach((track) => track.stop());
  stream = null;
}

function happened({ name, ...event }) {
  if (name === "stalled") state("stalled");
  if (name === "quality") screen.behind(event.detail);
  if (name === "connected" || name === "resumed") state(speaking === null ? "idle" : "speaking");
  if (name === "speaking_started") {
    speaking = event.utterance_id;
    state("speaking");
  }
  if (name === "speaking_finished" && event.utterance_id === speaking) { // others were waiting, and are dropped unheard
    speaking = null;
    state("idle");
    const how = event.interrupted ? "Interrupted" : "Finished";
    if (drive() === "push") byId("queue-text").textContent = `${how} after ${clockText(event.position_s)}.`;
  }
  if (name === "error" && event.utterance_id) { // a text that the voice could not say to its end
    raiseProblem(byId("speech-error"), new Problem({ title: "The text was not spoken.", text: sentence(event.detail) }));
  }
  if (name === "ended") {
    const text = ENDS[event.detail];
    const fault = event.detail === "failed" ? new Problem({ title: "The session has ended.", text }) : null;
    ended = fault ? "" : text ?? "The session has ended.";
    connection?.end(fault);
  }
}

/** Send a file or text; true where it was taken in. */
async function speak(speech) {
  if (!connection?.id) return false;
  const name = typeof speech === "string" ? "Text" : speech.name;
  showProblem(byId("speech-error"), null);
  byId("queue-text").textContent = `Sending ${name}…`;
  try {
    const spoken = await connection.speak(speech);
    const length = spoken.duration_s === null ? "taken in" : clockText(spoken.duration_s);
    const wait = spoken.queued_s > 0.5 ? `, after ${clockText(spoken.queued_s)} that wait` : "";
    byId("queue-text").textContent = `${name}: ${length}${wait}.`;
    return true;
  } catch (error) {
    if (error.name === "AbortError") return false; // the session was ended meanwhile
    byId("queue-text").textContent = "";
    raiseProblem(byId("speech-error"), asProblem(error));
    return false;
  }
}

async function say() {
  const box = byId("text");
  const text = box.value.trim();
  if (!text) return;
  box.value = ""; // what is typed from here on is the next one
  if (!(await speak(text)) && !box.value) box.value = text;
}

async function express(looks) {
  if (!connection?.id) return;
  showProblem(byId("live-error"), null);
  try {
    await connection.express(looks);
  } catch (error) {
    if (error.name === "AbortError") return;
    raiseProblem(byId("live-error"), asProblem(error));
  }
}

async function interrupt() {
  try {
    await connection.interrupt();
  } catch (error) {
    if (error.name === "AbortError") return;
    raiseProblem(byId("live-error"), asProblem(error));
  }
}

byId("setup").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!connection) start();
});
byId("end").addEventListener("click", () => connection?.end());
byId("interrupt").addEventListener("click", () => interrupt());
byId("audio").addEventListener("change", ({ target }) => {
  if (target.files.length) speak(target.files[0]);
  target.value = "";
});
acceptDrops(byId("speech-drop"), (file) => speak(file));
byId("say").addEventListener("click", () => say());
byId("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  say();
});
for (const one of document.querySelectorAll("input[name=drive]")) one.addEventListener("change", update);

installTheme();
update();
presenters.load();
showVersion();
