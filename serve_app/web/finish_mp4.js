// A fragmented mp4 becomes a plain one: an index in front, so that every program knows its length and can seek (ISO/IEC 14496-12).
// Nothing is encoded again; the pictures and the sound stay the bytes that came.

const NOT_SYNC = 0x10000;
const WIDE = 2 ** 32 - 2 ** 20;
const CONTAINERS = new Set(["moov", "trak", "mdia", "minf", "edts"]);
const BRANDS = "isom\0\0\x02\0isomiso2avc1mp41";
const COUNT_AT = 12; // of most tables: behind size, type, version and flags

const bytesOf = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
const u32 = (...values) => {
  const view = new DataView(new ArrayBuffer(4 * values.length));
  values.forEach((value, index) => view.setUint32(4 * index, value));
  return new Uint8Array(view.buffer);
};
const box = (type, ...parts) => {
  const size = 8 + parts.reduce((sum, part) => sum + part.length, 0);
  const made = new Uint8Array(size);
  made.set(u32(size));
  made.set(bytesOf(type), 4);
  let at = 8;
  for (const part of parts) { made.set(part, at); at += part.length; }
  return made;
};
const offset = (at, wide) => (wide ? u32(Math.floor(at / 2 ** 32), at % 2 ** 32) : u32(at));
const table = (type, ...parts) => box(type, u32(0), ...parts);

function* boxesIn(view, from, to) {
  for (let at = from; at + 8 <= to;) {
    const type = String.fromCharCode(...new Uint8Array(view.buffer, view.byteOffset + at + 4, 4));
    const short = view.getUint32(at);
    const head = short === 1 ? 16 : 8;
    const size = short === 1 ? Number(view.getBigUint64(at + 8)) : short || to - at;
    if (size < head || at + size > to) throw new RangeError(`the file breaks off in its box ${type}`);
    yield { type, at, body: at + head, end: at + size };
    at += size;
  }
}

const childOf = (view, parent, ...path) => path.reduce((found, type) => {
  for (const one of found ? boxesIn(view, found.body, found.end) : []) if (one.type === type) return one;
  return null;
}, parent);

/** Number of 4 or, in version 1, 8 bytes. */
const timeAt = (view, at, long) => (long ? Number(view.getBigUint64(at)) : view.getUint32(at));

/** Samples of one track, in order: [duration, size, is a key frame, composition offset], and where each run of them lies. */
class Track {
  constructor(view, trak, defaults) {
    const id = childOf(view, trak, "tkhd");
    const head = childOf(view, trak, "mdia", "mdhd");
    this.id = view.getUint32(id.body + (view.getUint8(id.body) ? 20 : 12));
    this.timescale = view.getUint32(head.body + (view.getUint8(head.body) ? 20 : 12));
    this.defaults = defaults.get(this.id) ?? [0, 0, 0];
    Object.assign(this, { samples: [], runs: [], duration: 0 });
  }

  take(view, moof, traf) {
    let [duration, size, flags] = this.defaults;
    const head = childOf(view, traf, "tfhd");
    const told = view.getUint32(head.body) & 0xffffff;
    let at = head.body + 8;
    let base = moof.at;
    if (told & 0x1) { base = Number(view.getBigUint64(at)); at += 8; }
    if (told & 0x2) at += 4;
    if (told & 0x8) { duration = view.getUint32(at); at += 4; }
    if (told & 0x10) { size = view.getUint32(at); at += 4; }
    if (told & 0x20) flags = view.getUint32(at);
    const clock = childOf(view, traf, "tfdt");
    if (clock) this.#waitUntil(timeAt(view, clock.body + 4, view.getUint8(clock.body)));
    for (const one of boxesIn(view, traf.body, traf.end)) if (one.type === "trun") base = this.#run(view, one, base, duration, size, flags);
  }

  /** A pause before a fragment lengthens the sample before it. */
  #waitUntil(time) {
    const last = this.samples.at(-1);
    if (!last || time <= this.duration) return;
    last[0] += time - this.duration;
    this.duration = time;
  }

  #run(view, trun, base, duration, size, flags) {
    const told = view.getUint32(trun.body) & 0xffffff;
    const count = view.getUint32(trun.body + 4);
    let at = trun.body + 8;
    let start = base;
    let first = null;
    if (told & 0x1) { start += view.getInt32(at); at += 4; }
    if (told & 0x4) { first = view.getUint32(at); at += 4; }
    this.runs.push({ start, count });
    for (let index = 0; index < count; index += 1) {
      const next = (bit, otherwise) => {
        if (!(told & bit)) return otherwise;
        at += 4;
        return view.getUint32(at - 4);
      };
      const sample = [next(0x100, duration), next(0x200, size), next(0x400, index === 0 && first !== null ? first : flags), next(0x800, 0)];
      this.samples.push([sample[0], sample[1], !(sample[2] & NOT_SYNC), sample[3] | 0]);
      this.duration += sample[0];
      start += sample[1];
    }
    return start;
  }

  /** The tables of the index; `place(start)` is where a byte of the fragments stands in the new file, `wide` whether that needs 8 bytes. */
  tables(place, wide) {
    const runsOf = (values) => {
      const rows = [];
      for (const value of values) {
        if (rows.length && rows.at(-1)[1] === value) rows.at(-1)[0] += 1;
        else rows.push([1, value]);
      }
      return [u32(rows.length), u32(...rows.flat())];
    };
    const keys = this.samples.flatMap(([, , key], index) => (key ? [index + 1] : []));
    const chunks = this.runs.filter(({ count }) => count);
    const made = [
      table("stts", ...runsOf(this.samples.map(([duration]) => duration))),
      table("stsc", u32(chunks.length), ...chunks.map(({ count }, index) => u32(index + 1, count, 1))),
      table("stsz", u32(0, this.samples.length), ...this.samples.map(([, size]) => u32(size))),
      table(wide ? "co64" : "stco", u32(chunks.length), ...chunks.map(({ start }) => offset(place(start), wide))),
    ];
    if (keys.length < this.samples.length) made.push(table("stss", u32(keys.length, ...keys)));
    if (this.samples.some(([, , , shift]) => shift)) {
      made.push(box("ctts", u32(0x1000000), ...runsOf(this.samples.map(([, , , shift]) => shift))));
    }
    return made;
  }
}

/** A copy of a box with times put in: `[offset behind version and flags in versions 0 and 1, value]`. */
function timed(view, one, [short, long], value) {
  const copy = new Uint8Array(view.buffer.slice(view.byteOffset + one.at, view.byteOffset + one.end));
  const own = new DataView(copy.buffer);
  const body = one.body - one.at;
  if (own.getUint8(body)) own.setBigUint64(body + 4 + long, BigInt(value));
  else own.setUint32(body + 4 + short, value);
  return copy;
}

/** An edit list whose open end is filled in, and how long it plays, in the movie's time. */
function edited(view, elst, track, scale) {
  const copy = new Uint8Array(view.buffer.slice(view.byteOffset + elst.at, view.byteOffset + elst.end));
  const own = new DataView(copy.buffer);
  const long = own.getUint8(8) === 1;
  const [width, row] = long ? [8, 20] : [4, 12];
  let plays = 0;
  for (let index = 0; index < own.getUint32(COUNT_AT); index += 1) {
    const at = COUNT_AT + 4 + index * row;
    const media = long ? Number(own.getBigInt64(at + width)) : own.getInt32(at + width);
    let lasts = timeAt(own, at, long);
    if (media >= 0 && !lasts) {
      lasts = Math.round((track.duration - media) * scale);
      if (long) own.setBigUint64(at, BigInt(lasts));
      else own.setUint32(at, lasts);
    }
    plays += lasts;
  }
  return [copy, plays];
}

function index(view, moov, tracks, place, wide) {
  const head = childOf(view, moov, "mvhd");
  const movieScale = view.getUint32(head.body + (view.getUint8(head.body) ? 20 : 12));
  let longest = 0;
  const rebuilt = (parent, track) => {
    const parts = [];
    let plays = track ? Math.round((track.duration * movieScale) / track.timescale) : 0;
    const list = track && parent.type === "trak" ? childOf(view, parent, "edts", "elst") : null;
    if (list) [, plays] = edited(view, list, track, movieScale / track.timescale);
    for (const one of boxesIn(view, parent.body, parent.end)) {
      if (one.type === "mvex" || one.type === "mvhd") continue;
      if (one.type === "trak") parts.push(rebuilt(one, tracks.find(({ trak }) => trak.at === one.at).track));
      else if (one.type === "tkhd") parts.push(timed(view, one, [16, 24], plays));
      else if (one.type === "mdhd") parts.push(timed(view, one, [12, 20], track.duration));
      else if (one.type === "elst") parts.push(edited(view, one, track, movieScale / track.timescale)[0]);
      else if (one.type === "stbl") parts.push(box("stbl", copyOf(view, childOf(view, one, "stsd")), ...track.tables(place, wide)));
      else if (CONTAINERS.has(one.type)) parts.push(rebuilt(one, track));
      else parts.push(copyOf(view, one));
    }
    if (parent.type === "trak") longest = Math.max(longest, plays);
    if (parent.type !== "moov") return box(parent.type, ...parts);
    return box("moov", timed(view, head, [12, 20], longest), ...parts);
  };
  return rebuilt(moov, null);
}

const copyOf = (view, one) => new Uint8Array(view.buffer, view.byteOffset + one.at, one.end - one.at);

/** The plain mp4 of a fragmented one. `bytes` is a Uint8Array; gives a Blob. */
export function finished(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const all = [...boxesIn(view, 0, view.byteLength)];
  const moov = all.find(({ type }) => type === "moov");
  const media = all.filter(({ type }) => type === "mdat");
  const defaults = new Map();
  const extends_ = childOf(view, moov, "mvex");
  for (const one of extends_ ? boxesIn(view, extends_.body, extends_.end) : []) {
    if (one.type === "trex") defaults.set(view.getUint32(one.body + 4), [12, 16, 20].map((offset) => view.getUint32(one.body + offset)));
  }
  const traks = [...boxesIn(view, moov.body, moov.end)].filter(({ type }) => type === "trak");
  const tracks = traks.map((trak) => ({ trak, track: new Track(view, trak, defaults) }));
  for (const moof of all.filter(({ type }) => type === "moof")) {
    for (const traf of boxesIn(view, moof.body, moof.end)) {
      if (traf.type !== "traf") continue;
      const id = view.getUint32(childOf(view, traf, "tfhd").body + 4);
      tracks.find(({ track }) => track.id === id).track.take(view, moof, traf);
    }
  }
  const ftyp = box("ftyp", bytesOf(BRANDS));
  const size = media.reduce((sum, one) => sum + one.end - one.body, 0);
  const wide = view.byteLength > WIDE;
  const head = wide ? box("mdat", u32(0, 0)) : box("mdat");
  const own = new DataView(head.buffer);
  own.setUint32(0, wide ? 1 : head.length + size);
  if (wide) own.setBigUint64(8, BigInt(head.length + size));
  const placed = (before) => (start) => {
    let at = before;
    for (const one of media) {
      if (start >= one.body && start < one.end) return at + start - one.body;
      at += one.end - one.body;
    }
    throw new RangeError("a fragment lies outside of the media");
  };
  const { length } = index(view, moov, tracks, () => 0, wide); // the same wherever the media lie
  const made = index(view, moov, tracks, placed(ftyp.length + length + head.length), wide);
  return new Blob([ftyp, made, head, ...media.map((one) => bytes.subarray(one.body, one.end))], { type: "video/mp4" });
}
