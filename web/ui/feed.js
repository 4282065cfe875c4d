// The stream of expert activity (README.md has the format): decoded, checked, kept connected while somebody looks.
import {stream} from "./api.js";

const kMaxCells = 1 << 20, kSilenceMs = 20000;
export const place = {
  disk: 0,
  memory: 1,
  reading: 2
};

function fromBase64(text, bytes, what) {
  const raw = atob(text);
  if (raw.length < bytes) throw new Error(`The expert stream's ${what} has ${raw.length} bytes, not ${bytes}.`);
  return Uint8Array.from({length: bytes}, (_, i) => raw.charCodeAt(i));
}

function integers(text, cells, width, what) {
  const view = new DataView(fromBase64(text, cells * width, what).buffer);
  return Float64Array.from(
      {length: cells}, (_, i) => (width === 2 ? view.getUint16(2 * i, true) : view.getUint32(4 * i, true)));
}

const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);

/** What the frames of one connection add up to. */
export class Activity {
  constructor(frame) {
    const {layers, experts} = frame;
    if (!Number.isInteger(layers) || !Number.isInteger(experts) || layers < 1 || experts < 1 ||
        layers * experts > kMaxCells) {
      throw new Error("The expert stream has no sensible shape.");
    }
    const cells = layers * experts;
    Object.assign(this, {layers, experts, topK: number(frame.top_k), bytesPerExpert: number(frame.bytes_per_expert)});
    this.layerNumbers = Array.from({length: layers}, (_, i) => number(frame.layer_numbers?.[i]) ?? i);
    this.total = frame.total ? integers(frame.total, cells, 4, "total") : new Float64Array(cells);
    this.places = new Uint8Array(cells);
    this.fresh = new Float64Array(cells); // of the last frame
    this.take(frame);
  }

  take(frame) {
    const cells = this.layers * this.experts;
    this.fresh = frame.activations ? integers(frame.activations, cells, 2, "activations") : new Float64Array(cells);
    for (let i = 0; i < cells; ++i) this.total[i] += this.fresh[i];
    if (frame.resident) {
      const resident = fromBase64(frame.resident, Math.ceil(cells / 8), "resident");
      const reading = frame.reading ? fromBase64(frame.reading, Math.ceil(cells / 8), "reading") : null;
      const bit = (bits, i) => (bits[i >> 3] >> (i & 7)) & 1;
      for (let i = 0; i < cells; ++i) this.places[i] = reading && bit(reading, i) ? place.reading : bit(resident, i);
    }
    for (const name of ["hit_rate", "bytes_per_token", "tokens_per_second", "read_bytes_per_second"])
      this[name] = number(frame[name]);
  }
}

/** Calls `onFrame(activity)` for each frame and `onState(text)` ("" while all is well) from start() to stop(). */
export class Feed {
  constructor(onFrame, onState) { Object.assign(this, {onFrame, onState}); }

  start() {
    if (this.controller) return;
    this.controller = new AbortController();
    this.run(this.controller.signal);
  }

  stop() {
    this.controller?.abort();
    this.controller = null;
  }

  async run(signal) {
    for (let wait = 1000; !signal.aborted; wait = Math.min(15000, 2 * wait)) {
      try {
        await this.connection(signal);
        wait = 500;
        if (!signal.aborted) this.onState("Reconnecting to the server…");
      } catch (error) {
        if (signal.aborted) return;
        const final = {
          401: "The experts need the API key: the settings have a field for it.",
          404: "This server does not tell about experts.",
          501: "This model has no experts."
        }[error.status];
        this.onState(final ?? error.message);
        if (final) {
          this.controller = null;
          return;
        }
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  async connection(signal) {
    const own = new AbortController();
    const end = () => own.abort();
    signal.addEventListener("abort", end);
    let activity = null, timer = setTimeout(end, kSilenceMs);
    try {
      for await (const frame of stream("v1/experts/stream", {
        signal: own.signal,
        onBytes: () => {
          clearTimeout(timer);
          timer = setTimeout(end, kSilenceMs);
        }
      })) {
        if (activity) activity.take(frame);
        else activity = new Activity(frame);
        this.onState("");
        this.onFrame(activity);
      }
    } catch (error) {
      if (!own.signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      own.abort();
    }
  }
}
