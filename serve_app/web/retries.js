// When a session that was lost is begun again by itself: up to six times, later each time, until one has lasted for a while.

import { CUT } from "./connection.js";

const MAX_TRIES = 6; // at once, then after 1, 2, 4, 8 and 16 s
const STEADY_MS = 10000;

export class Retries {
  /** `start()` begins a session. */
  constructor(start) {
    Object.assign(this, { start, tries: 0, steady: 0, again: 0 });
  }

  /** Pictures flow. */
  flows() {
    clearTimeout(this.steady);
    this.steady = setTimeout(() => { this.tries = 0; }, STEADY_MS);
  }

  /** A session is begun, by this or by a person. */
  begun() {
    clearTimeout(this.again);
  }

  /** A session ended with `problem`; true where another one will be begun. */
  ended(problem) {
    clearTimeout(this.steady);
    // After a loss the service may be starting again, or the session that was lost may still hold its place.
    const soon = this.tries > 0 && (problem?.status === 0 || problem?.status >= 500);
    if ((problem === CUT || soon) && this.tries < MAX_TRIES) {
      this.again = setTimeout(() => this.start(), this.tries ? 500 * 2 ** this.tries : 0);
      this.tries += 1;
      return true;
    }
    this.tries = 0;
    return false;
  }
}
