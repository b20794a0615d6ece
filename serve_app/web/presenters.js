// Step 1: who speaks.

import { acceptDrops, byId, make, raiseProblem, show, showProblem } from "./dom.js";
import { asProblem, call, getJson } from "./api.js";
import { askConsent } from "./consent.js";
import { showPicture } from "./session.js";

const TYPES = "image/jpeg,image/png,image/webp,image/heic,image/heif,image/avif,video/mp4,video/webm,video/quicktime";
const HINT = "A portrait can be a JPEG, PNG, WebP, HEIC or AVIF picture or a short video: one person, facing the camera. It stays until it is removed, and everybody who uses this page can choose or remove it.";
const KEPT = "Added for everybody who uses this page.";

/** The card's content; both pages have the same. */
function fill(card) {
  const number = make("span", { className: "number", "aria-hidden": "true" }, "1");
  const tiles = make("div", { id: "presenters", className: "tiles" });
  const status = make("p", { id: "presenter-status", className: "status", role: "status" }, "Loading presenters…");
  const remove = make("button", { type: "button", id: "remove-presenter", className: "link", hidden: true }, "Remove it for everybody…");
  const question = make("div", { id: "remove-question", className: "row chosen", role: "group", hidden: true },
    make("span", { className: "status" }), make("button", { type: "button", id: "remove-sure", className: "link" }, "Remove"), make("button", { type: "button", id: "remove-keep", className: "link" }, "Keep"));
  const error = make("div", { id: "presenter-error", className: "alert", role: "alert", hidden: true });
  card.replaceChildren(
    make("h2", { id: "presenter-title" }, number, "Presenter"),
    make("fieldset", { id: "presenter-fields", className: "plain" }, make("legend", { className: "hidden" }, "Who speaks"), tiles),
    make("div", { className: "row chosen" }, status, remove),
    question,
    make("p", { id: "portrait-hint", className: "hint" }, HINT),
    error,
  );
  return { tiles, status, remove, question, error };
}

/** An arrow that points up from a tray. */
function arrow() {
  const [icon, path] = ["svg", "path"].map((name) => document.createElementNS("http://www.w3.org/2000/svg", name));
  icon.setAttribute("viewBox", "0 0 24 24");
  icon.setAttribute("aria-hidden", "true");
  path.setAttribute("d", "M12 16V4m0 0L7 9m5-5 5 5M4 16v4h16v-4");
  icon.append(path);
  return icon;
}

export class Presenters {
  /** Fills the card `presenter-card`; `onChange(presenter or null)` hears who is chosen. */
  constructor(onChange) {
    this.onChange = onChange;
    this.known = [];
    this.asks = false;
    this.chosen = null;
    Object.assign(this, fill(byId("presenter-card")));
    this.input = make("input", { type: "file", accept: TYPES, className: "hidden", id: "portrait" });
    this.input.setAttribute("aria-describedby", "portrait-hint");
    this.input.addEventListener("change", () => {
      if (this.input.files.length) this.#register(this.input.files[0]);
      this.input.value = "";
    });
    this.add = make("label", { className: "tile add" }, this.input, arrow(), "Upload a portrait");
    acceptDrops(this.add, (file) => this.#register(file));
    this.remove.addEventListener("click", () => this.#sure(true));
    const [sure, keep] = this.question.querySelectorAll("button");
    sure.addEventListener("click", () => this.#remove());
    keep.addEventListener("click", () => { this.#sure(false); this.remove.focus(); });
  }

  async load() {
    try {
      const { avatars, consent_needed: needed } = await getJson("/avatars");
      this.asks = needed;
      this.known = avatars.filter((one) => !one.temporary); // strangers that jobs brought along
      showProblem(this.error, null);
    } catch (error) {
      showProblem(this.error, asProblem(error), () => this.load());
    }
    this.chosen ??= this.known[0] ?? null;
    this.#draw();
  }

  #draw() {
    this.tiles.replaceChildren(...this.known.map((one) => this.#tile(one)), this.add);
    this.#chose(this.chosen);
  }

  #tile(one) {
    const name = one.name || "Without a name";
    const radio = make("input", { type: "radio", name: "presenter", value: one.avatar_id, className: "hidden" });
    radio.checked = one.avatar_id === this.chosen?.avatar_id;
    radio.addEventListener("change", () => this.#chose(one));
    const picture = make("img", { alt: "", loading: "lazy" });
    showPicture(picture, one.preview_url);
    return make("label", { className: "tile", title: name }, radio, picture, make("span", { className: "label" }, name));
  }

  #chose(one) {
    this.chosen = one;
    this.#sure(false);
    this.status.textContent = one ? `${one.name || "Without a name"}, ${one.width} × ${one.height}` : "";
    this.onChange(one);
  }

  async #register(file) {
    const consent = this.asks ? await askConsent() : "";
    if (consent === null) return;
    const url = URL.createObjectURL(file);
    const spinner = make("span", { className: "spinner" });
    const busy = make("div", { className: "tile busy" }, ...(file.type.startsWith("image/") ? [make("img", { src: url, alt: "" })] : []), spinner);
    this.tiles.insertBefore(busy, this.add);
    showProblem(this.error, null);
    this.status.textContent = "Looking for the face…";
    try {
      const form = new FormData();
      form.append("file", file);
      if (consent) form.append("consent", consent);
      const made = await (await call("/avatars", { method: "POST", body: form })).json();
      this.known = [...this.known.filter((one) => one.avatar_id !== made.avatar_id), made];
      this.chosen = made;
      this.#draw();
      this.status.textContent += `. ${KEPT}`;
      this.tiles.querySelector(":checked")?.focus();
    } catch (error) {
      busy.remove();
      this.#chose(this.chosen);
      raiseProblem(this.error, asProblem(error));
    } finally {
      URL.revokeObjectURL(url);
    }
  }

  /** What is gone for everybody is asked for twice. */
  #sure(asked) {
    show(this.remove, !asked && Boolean(this.chosen) && !this.chosen.is_default);
    show(this.question, asked);
    if (!asked) return;
    this.question.firstChild.textContent = `Remove ${this.chosen.name || "this presenter"} for everybody?`;
    this.question.querySelector("button:last-child").focus();
  }

  async #remove() {
    const { avatar_id: id } = this.chosen;
    this.#sure(false);
    try {
      await call(`/avatars/${id}`, { method: "DELETE" });
      this.known = this.known.filter((one) => one.avatar_id !== id);
      this.chosen = this.known[0] ?? null;
      this.#draw();
      this.tiles.querySelector(":checked")?.focus();
    } catch (error) {
      raiseProblem(this.error, asProblem(error));
    }
  }
}
