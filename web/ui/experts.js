// The expert view: what every expert of every layer does, and where it is.
import {$, download, h, icon, iconButton} from "./dom.js";
import {Feed, place} from "./feed.js";
import {bytes, count, percent, rate, seconds} from "./format.js";
import {ExpertMap} from "./map.js";

const kFade = 1.2, kHistory = 160, kTableMs = 1000; // seconds until "now" has faded to a third
const placeNames = {
  [place.disk]: "on disk",
  [place.memory]: "in memory",
  [place.reading]: "being read"
};
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export function startExperts(root, currentChat) { return new ExpertView(root, currentChat); }

class ExpertView {
  mode = "now";
  activity = null;
  answer = null; // {layers} of the chosen answer
  paused = false;
  visible = false;
  history = {hit_rate: [], bytes_per_token: []};
  faded = 0; // when "now" was last faded
  tableTime = 0;

  constructor(root, currentChat) {
    this.root = root;
    this.currentChat = currentChat;
    this.feed = new Feed((activity) => this.frame(activity), (text) => this.tell(text));
    this.build();
    this.map = new ExpertMap(this.canvas);
    this.answered = (node) => this.setAnswer(node);
    addEventListener("themechange", () => {
      this.map.readColours();
      this.draw();
    });
    new ResizeObserver(() => this.resize()).observe(this.scroll);
    document.addEventListener("visibilitychange", () => this.connect());
  }

  // ---- frame of the view --------------------------------------------------------------------------------------------

  build() {
    const tile = (name, title) => h("div", {class: "tile"}, h("dt", {}, title), h("dd", {data: {value: name}}, "–"));
    const mode = (name, label) =>
        h("button", {
          type: "button",
          data: {mode: name},
          "aria-pressed": String(name === this.mode),
          on: {click: () => this.setMode(name)}
        },
          label);
    this.canvas = h("canvas", {
      tabindex: "0",
      role: "application",
      "aria-roledescription": "map of experts",
      "aria-label": "Experts by layer. Arrow keys choose one.",
      "aria-describedby": "cell",
      on: {
        mousemove: (event) => this.hover(event),
        mouseleave: () => this.readout(this.map.selected),
        click: (event) => this.pick(event),
        keydown: (event) => this.key(event),
        focus: () => this.focused()
      }
    });
    this.scroll = h("div", {class: "map"}, this.canvas);
    this.cell = h("p", {id: "cell", class: "cell", "aria-live": "polite"});
    this.note = h("p", {class: "note", role: "status"}, "Waiting for the server…");
    this.table = h("div", {
      class: "table-scroll",
      hidden: true,
      tabindex: "0",
      role: "group",
      "aria-label": "Experts by layer, as a table"
    });
    this.pauseButton = iconButton("pause", "Pause", () => this.pause(), {"aria-pressed": "false"});
    this.tableButton = h(
        "button", {type: "button", class: "plain small", "aria-pressed": "false", on: {click: () => this.showTable()}},
        "Table");
    this.sparks = {
      hit_rate: spark("Hit rate", (x) => percent(x, 0), 1),
      bytes_per_token: spark("Read per token", bytes, null)
    };
    this.content =
        h("div", {hidden: true},
          h("dl", {class: "tiles"}, tile("tokens_per_second", "Tokens/s"), tile("hit_rate", "Hit rate"),
            tile("resident", "In memory"), tile("first", "To first token"), tile("bytes_per_token", "Read per token"),
            tile("read_bytes_per_second", "Disk")),
          h("div", {class: "row"},
            h("div", {class: "segments", role: "group", "aria-label": "What brightness shows"}, mode("now", "Now"),
              mode("answer", "This answer"), mode("session", "Session")),
            h("span", {class: "grow"}), this.tableButton),
          this.scroll, this.table, this.cell, legend(),
          h("div", {class: "sparks"}, this.sparks.hit_rate.element, this.sparks.bytes_per_token.element));
    this.readout(-1);
    this.root.append(
        h("header", {}, h("h2", {}, "Experts"), this.pauseButton,
          h("button", {
            type: "button",
            class: "plain small",
            title: "Save the map as an image",
            on: {click: () => this.savePng()}
          },
            "PNG"),
          h("button", {
            type: "button",
            class: "plain small",
            title: "Save the counts as a table",
            on: {click: () => this.saveCsv()}
          },
            "CSV")),
        this.note, this.content);
  }

  show(visible) {
    this.visible = visible;
    this.connect();
    if (visible) {
      this.setAnswer(this.currentChat().path().findLast((node) => node.experts));
      this.resize();
    }
  }

  connect() {
    if (this.visible && !this.paused && !document.hidden) this.feed.start();
    else this.feed.stop();
  }

  tell(text) {
    this.note.textContent = text;
    this.note.hidden = text === "";
  }

  pause() {
    this.paused = !this.paused;
    this.pauseButton.setAttribute("aria-pressed", String(this.paused));
    this.pauseButton.setAttribute("aria-label", this.paused ? "Go on" : "Pause");
    this.pauseButton.title = this.paused ? "Go on" : "Pause";
    this.pauseButton.replaceChildren(icon(this.paused ? "play" : "pause"));
    this.connect();
  }

  setMode(mode) {
    this.mode = mode;
    for (const button of this.root.querySelectorAll("[data-mode]"))
      button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    this.draw();
    this.fillTable();
    this.readout(this.map.selected);
  }

  setAnswer(node) {
    if (node?.experts) this.answer = node.experts;
    if (node?.stats) this.value("first", seconds(node.stats.firstTokenSeconds));
    if (this.mode === "answer") this.setMode("answer");
  }

  showAnswer(node) {
    this.setAnswer(node);
    this.setMode("answer");
  }

  // ---- what comes ---------------------------------------------------------------------------------------------------

  frame(activity) {
    const first = this.activity?.layers !== activity.layers || this.activity?.experts !== activity.experts;
    if (first) this.warm = new Float64Array(activity.layers * activity.experts);
    this.activity = activity;
    this.content.hidden = false;
    if (first) this.resize();
    this.fade();
    for (let i = 0; i < this.warm.length; ++i) this.warm[i] += activity.fresh[i];
    const resident = activity.places.reduce((sum, where) => sum + (where === place.memory ? 1 : 0), 0);
    this.value("resident", `${count(resident)} / ${count(activity.places.length)}`);
    if (activity.tokens_per_second !== null) this.value("tokens_per_second", rate(activity.tokens_per_second));
    if (activity.hit_rate !== null) this.value("hit_rate", percent(activity.hit_rate));
    if (activity.read_bytes_per_second !== null)
      this.value("read_bytes_per_second", `${bytes(activity.read_bytes_per_second)}/s`);
    if (activity.bytes_per_token !== null) this.value("bytes_per_token", bytes(activity.bytes_per_token));
    for (const [name, values] of Object.entries(this.history)) {
      if (activity[name] === null) continue;
      values.push(activity[name]);
      if (values.length > kHistory) values.shift();
      this.sparks[name].show(values);
    }
    this.later();
    if (performance.now() - this.tableTime > kTableMs) this.fillTable();
  }

  fade() {
    const now = performance.now(), factor = Math.exp(-(now - this.faded) / 1000 / kFade);
    for (let i = 0; i < this.warm.length; ++i) this.warm[i] = this.warm[i] < 0.01 ? 0 : this.warm[i] * factor;
    this.faded = now;
  }

  value(name, text) { this.root.querySelector(`[data-value="${name}"]`).textContent = text; }

  /** Counts that the present mode shows, for each cell. */
  counts() {
    if (this.mode === "now") return this.warm;
    if (this.mode === "session") return this.activity.total;
    const {experts, layerNumbers} = this.activity, counts = new Float64Array(this.warm.length);
    for (const {layer, experts: pairs} of this.answer?.layers ?? []) {
      const row = layerNumbers.indexOf(layer);
      if (row >= 0)
        for (const [expert, times] of pairs)
          if (expert < experts) counts[row * experts + expert] = times;
    }
    return counts;
  }

  // ---- drawing ------------------------------------------------------------------------------------------------------

  later() {
    this.drawing ||= requestAnimationFrame(() => {
      this.drawing = 0;
      this.draw();
    });
  }

  resize() {
    if (!this.activity || !this.scroll.clientWidth) return;
    this.map.layOut(
        this.activity.layers, this.activity.experts, this.activity.layerNumbers, this.scroll.clientWidth,
        Math.max(200, innerHeight - 510));
    this.draw();
  }

  draw() {
    if (!this.activity || !this.map.layers || !this.canvas.offsetParent) return;
    const counts = this.counts(), most = counts.reduce((a, b) => Math.max(a, b), this.mode === "now" ? 1 : 0);
    const heat = counts.map((x) => (x > 0 && most > 0 ? 0.12 + 0.88 * Math.log1p(x) / Math.log1p(most) : 0));
    this.map.draw(heat, this.activity.places);
    if (this.mode === "now" && !this.paused && !calm.matches && most > 1.01 &&
        !this.fading) { // fade between frames too
      this.fading = setTimeout(() => {
        this.fading = 0;
        this.fade();
        this.later();
      }, 80);
    }
  }

  // ---- one cell -----------------------------------------------------------------------------------------------------

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.map.at(event.clientX - box.left, event.clientY - box.top);
  }

  hover(event) {
    const index = this.cellAt(event);
    this.readout(index >= 0 ? index : this.map.selected);
  }
  pick(event) { this.select(this.cellAt(event)); }
  focused() {
    if (this.activity && this.map.selected < 0) this.select(0);
  }

  key(event) {
    if (!this.activity) return;
    const {layers, experts} = this.activity, layer = Math.floor(this.map.selected / experts),
                   expert = this.map.selected % experts;
    const moves = {
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      Home: [0, -experts],
      End: [0, experts],
      PageUp: [-8, 0],
      PageDown: [8, 0]
    };
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const within = (value, n) => Math.max(0, Math.min(n - 1, value));
    this.select(within(layer + move[0], layers) * experts + within(expert + move[1], experts));
  }

  select(index) {
    this.map.selected = index;
    this.readout(index);
    this.draw();
  }

  readout(index) {
    if (!this.activity || index < 0) {
      this.cell.textContent = "Point at an expert, or choose one with the arrow keys.";
      return;
    }
    const {experts, layerNumbers, places, total} = this.activity, row = Math.floor(index / experts),
                                          expert = index % experts;
    const counts = this.mode === "now" ? total : this.counts(),
          inLayer = counts.subarray(row * experts, (row + 1) * experts), sum = inLayer.reduce((a, b) => a + b, 0);
    const rank = 1 + inLayer.reduce((n, x) => n + (x > counts[index] ? 1 : 0), 0);
    const text = `Layer ${layerNumbers[row]}, expert ${expert}: ${placeNames[places[index]]}, chosen ${
                     count(counts[index])} times` +
        `${sum > 0 ? `, ${percent(counts[index] / sum)} of the layer, rank ${rank} of ${experts}` : ""}.`;
    if (this.cell.textContent !== text) this.cell.textContent = text;
  }

  // ---- table and files ----------------------------------------------------------------------------------------------

  showTable() {
    const on = this.table.hidden;
    this.table.hidden = !on;
    this.scroll.hidden = on;
    this.tableButton.setAttribute("aria-pressed", String(on));
    this.fillTable();
    if (!on) this.resize();
  }

  fillTable() {
    if (this.table.hidden || !this.activity) return;
    this.tableTime = performance.now();
    const {layers, experts, layerNumbers, places} = this.activity, counts = this.counts();
    const rows = Array.from(
        {length: layers},
        (_, row) => layerRow(
            layerNumbers[row], counts.subarray(row * experts, (row + 1) * experts),
            places.subarray(row * experts, (row + 1) * experts)));
    const heads = ["Layer", "In memory", "Chosen", "Spread over", "Most used"];
    this.table.replaceChildren(
        h("table", {},
          h("caption", {}, {now: "Now", answer: "This answer", session: "Since the server started"}[this.mode]),
          h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", {scope: "col"}, text)))), h("tbody", {}, ...rows)));
  }

  savePng() {
    if (this.activity) this.canvas.toBlob((blob) => blob && download("experts.png", "image/png", blob));
  }

  saveCsv() {
    if (!this.activity) return;
    const {experts, layerNumbers, places, total} = this.activity, counts = this.counts();
    const also = this.mode === "session" ? [] : [this.mode];
    const lines = Array.from(
        total,
        (all, i) => [layerNumbers[Math.floor(i / experts)], i % experts, placeNames[places[i]], all,
                     ...also.map(() => Number(counts[i].toFixed(3)))]
                        .join(","));
    download(
        "experts.csv", "text/csv",
        `${["layer", "expert", "place", "session", ...also].join(",")}\n${lines.join("\n")}\n`);
  }
}

/** `Spread over`: the number of experts that would have the same entropy if used evenly. */
function layerRow(number, counts, places) {
  const sum = counts.reduce((a, b) => a + b, 0);
  const entropy = counts.reduce((e, x) => (x > 0 ? e - (x / sum) * Math.log(x / sum) : e), 0);
  const most = Array.from(counts.keys()).filter((i) => counts[i] > 0).sort((a, b) => counts[b] - counts[a]).slice(0, 4);
  const resident = places.reduce((n, where) => n + (where === place.memory ? 1 : 0), 0);
  return h(
      "tr", {}, h("th", {scope: "row"}, String(number)), h("td", {}, `${resident} of ${counts.length}`),
      h("td", {}, count(sum)), h("td", {}, sum > 0 ? `${Math.exp(entropy).toFixed(1)} experts` : "–"),
      h("td", {}, most.map((i) => `${i} (${percent(counts[i] / sum, 0)})`).join(", ") || "–"));
}

function legend() {
  const entry = (name, label) => h("li", {}, h("span", {class: `swatch ${name}`, "aria-hidden": "true"}), label);
  return h(
      "ul", {class: "legend", "aria-label": "Legend"}, entry("memory", "in memory"), entry("disk", "on disk"),
      entry("reading", "being read"), entry("heat", "stronger: used more"));
}

/** A small line of recent values; `top`: the fixed upper end of the scale, or null. */
function spark(label, format, top) {
  const line = h("polyline", {points: "", fill: "none"}), text = h("b", {}, "–");
  const drawing =
      h("svg", {viewBox: "0 0 160 32", preserveAspectRatio: "none", role: "img", "aria-label": label}, line);
  const show = (values) => {
    const highest = top ?? Math.max(...values, 1e-9);
    line.setAttribute(
        "points",
        values
            .map(
                (x, i) => `${(160 * i / Math.max(1, values.length - 1)).toFixed(1)},${
                    (30 - 28 * Math.min(1, x / highest)).toFixed(1)}`)
            .join(" "));
    text.textContent = format(values.at(-1));
    drawing.setAttribute(
        "aria-label",
        `${label}: ${format(values.at(-1))}, between ${format(Math.min(...values))} and ${
            format(Math.max(...values))}`);
  };
  return {element: h("div", {class: "spark"}, h("span", {}, label), text, drawing), show};
}
