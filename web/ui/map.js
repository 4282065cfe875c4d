// The drawing of layers x experts: a band per layer, a square per expert. Where an expert is shows in hue and in size
// (on disk: smaller; being read: a frame), how much it is used in brightness.
import {place} from "./feed.js";

const kGutter = 30, kShades = 48, kMaxCell = 20, kMinCell = 4, kTallest = 2.2;

const parse = (text) => {
  const [, r, g, b] = /#(..)(..)(..)/.exec(text.trim());
  return [r, g, b].map((part) => parseInt(part, 16));
};
const ramp = (from, to) => Array.from({length: kShades}, (_, i) => {
  const t = i / (kShades - 1);
  return `rgb(${parse(from).map((a, c) => Math.round(a + (parse(to)[c] - a) * t)).join(" ")})`;
});

export class ExpertMap {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.selected = -1;
    this.readColours();
  }

  readColours() {
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(`--${name}`);
    this.ramps = {
      [place.disk]: ramp(colour("map-disk-cold"), colour("map-disk-hot")),
      [place.memory]: ramp(colour("map-memory-cold"), colour("map-memory-hot"))
    };
    this.ramps[place.reading] = this.ramps[place.disk];
    Object.assign(
        this,
        {ground: colour("map-ground"), reading: colour("map-reading"), label: colour("muted"), ring: colour("text")});
  }

  /**
   * The largest cells with which everything fits into `width` x `height`, up to kTallest times as high as wide; when
   * none do, small ones and a taller canvas.
   */
  layOut(layers, experts, layerNumbers, width, height) {
    const inner = width - kGutter;
    let cell = kMaxCell, rows, gap;
    for (;; --cell) {
      rows = Math.ceil(experts / Math.max(1, Math.floor(inner / cell)));
      gap = rows > 1 ? Math.max(2, Math.round(cell / 2)) : 0;
      if (cell <= kMinCell || layers * (rows * cell + gap) <= height) break;
    }
    const perRow = Math.ceil(experts / rows), wide = Math.min(kMaxCell, inner / perRow);
    const high =
        Math.max(Math.min(cell, wide), Math.min(kMaxCell, kTallest * wide, Math.floor((height / layers - gap) / rows)));
    const band = rows * high + gap;
    Object.assign(
        this, {layers, experts, layerNumbers, wide, high, perRow, band, width, height: Math.ceil(layers * band)});
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  spot(index) {
    const layer = Math.floor(index / this.experts), expert = index % this.experts;
    return {
      x: kGutter + (expert % this.perRow) * this.wide,
      y: layer * this.band + Math.floor(expert / this.perRow) * this.high
    };
  }

  /** The cell under a point of the canvas, or -1. */
  at(x, y) {
    const layer = Math.floor(y / this.band), row = Math.floor((y - layer * this.band) / this.high),
          column = Math.floor((x - kGutter) / this.wide);
    const expert = row * this.perRow + column;
    const inside = layer >= 0 && layer < this.layers && column >= 0 && column < this.perRow && expert >= 0 &&
        expert < this.experts;
    return inside ? layer * this.experts + expert : -1;
  }

  /** `heat`: 0 .. 1 for each cell. */
  draw(heat, places) {
    const {context: c, wide, high} = this;
    c.fillStyle = this.ground;
    c.fillRect(0, 0, this.width, this.height);
    const gap = wide >= 5 ? 1 : wide >= 3 ? 0.5 : 0;
    const small = wide * 0.2;
    for (let i = 0; i < this.layers * this.experts; ++i) {
      const {x, y} = this.spot(i), where = places[i], inset = where === place.memory ? 0 : small;
      c.fillStyle = this.ramps[where][Math.min(kShades - 1, Math.round(heat[i] * (kShades - 1)))];
      c.fillRect(x + inset, y + inset, wide - gap - 2 * inset, high - gap - 2 * inset);
      if (where === place.reading) this.frame(x, y, wide - gap, high - gap, this.reading, Math.max(1, wide / 7));
    }
    this.labels();
    if (this.selected >= 0) {
      const {x, y} = this.spot(this.selected);
      this.frame(x - 1.5, y - 1.5, wide + 2, high + 2, this.ring, 2);
    }
  }

  frame(x, y, wide, high, colour, width) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.strokeRect(x + width / 2, y + width / 2, wide - width, high - width);
  }

  labels() {
    const {context: c} = this, every = Math.max(1, Math.ceil(12 / this.band));
    c.fillStyle = this.label;
    c.font = "10px system-ui, sans-serif";
    c.textAlign = "right";
    c.textBaseline = "top";
    for (let layer = 0; layer < this.layers; layer += every)
      c.fillText(String(this.layerNumbers[layer]), kGutter - 8, layer * this.band + Math.max(0, (this.high - 10) / 2));
  }
}
