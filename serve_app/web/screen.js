// The picture of a session on a page: poster, video, badge, and what to do where a browser wants a click before sound.

import { byId, show } from "./dom.js";
import { showPicture } from "./session.js";

const BEHIND = {
  reduced: "The service is busy: the picture cannot keep up with the voice.",
  waiting: "The picture waits for a part of the service that is starting or has no room. The voice goes on.",
};

export class Screen {
  /** `onPlaying()` hears that pictures have come. */
  constructor(onPlaying) {
    this.picture = byId("picture");
    this.picture.addEventListener("playing", () => {
      show(this.picture, true);
      show(byId("poster"), false);
      show(byId("waiting"), false);
      onPlaying();
    });
    byId("unmute").addEventListener("click", () => {
      this.picture.muted = false;
      show(byId("unmute"), false);
    });
  }

  /** Show who will speak; `reshape` fits the screen to them. */
  present(presenter, reshape) {
    const poster = byId("poster");
    showPicture(poster, presenter.preview_url);
    poster.alt = `Presenter ${presenter.name}`;
    if (reshape) this.shape(presenter);
    show(poster, this.picture.hidden);
  }

  shape({ width, height }) {
    byId("screen").style.setProperty("--ratio", width / height);
  }

  /** A session is about to come. */
  wait() {
    show(byId("waiting"), true);
  }

  /** Media came. */
  play(media) {
    if (this.picture.srcObject !== media) this.picture.srcObject = media;
    this.picture.play().catch(() => {
      this.picture.muted = true; // a browser that allows sound only after a click
      show(byId("unmute"), true);
      this.picture.play().catch(() => {});
    });
  }

  /** The session is over. */
  clear() {
    this.picture.srcObject = null;
    show(this.picture, false);
    show(byId("poster"), true);
    for (const id of ["waiting", "unmute", "behind"]) show(byId(id), false);
  }

  /** Say where the picture cannot keep up; `quality` as the event tells. */
  behind(quality) {
    byId("behind").textContent = BEHIND[quality] ?? "";
    show(byId("behind"), quality in BEHIND);
  }

  /** The words in the picture's corner; none where they are empty. */
  badge(words, speaking) {
    const badge = byId("badge");
    show(badge, words !== "");
    badge.textContent = words;
    badge.classList.toggle("speaking", speaking);
  }
}
