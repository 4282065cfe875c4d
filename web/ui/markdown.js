// Markdown to DOM nodes: the subset that models write. Everything becomes elements and text nodes made here; HTML in
// the text stays text, addresses other than http, https and mailto stay text, and nothing is ever fetched (an image
// becomes a link). Linear in the text's length and bounded in depth, whatever the text is.
import {copyText, h, iconButton} from "./dom.js";
import {highlight} from "./highlight.js";

const kMaxDepth = 8; // of lists, quotes and emphasis inside each other; what is deeper is text

// ---- blocks ---------------------------------------------------------------------------------------------------------

// No pattern below may try a run of characters in two adjacent repetitions: that would be quadratic.
const fenceStart = /^ {0,3}(`{3,}|~{3,})([^`\n]*)$/;
const heading = /^ {0,3}(#{1,6})([ \t].*)?$/;
const rule = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const item = /^( {0,3})([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;
const tableRule = /^ {0,3}(?:\|[ \t]*)?:?-+:?(?:[ \t]*\|[ \t]*:?-+:?)*(?:[ \t]*\|)?[ \t]*$/;
const mathStart = /^ {0,3}(\$\$|\\\[)/;

const blank = (line) => line.trim() === "";
const indentOf = (line) => line.length - line.trimStart().length;
const startsBlock = (line) => fenceStart.test(line) || heading.test(line) || rule.test(line) || /^ {0,3}>/.test(line) ||
    item.test(line) || mathStart.test(line);

/** The blocks of these lines: {type, source, ...}. */
function parseBlocks(lines, depth) {
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    if (blank(lines[i])) {
      ++i;
      continue;
    }
    const block = depth < kMaxDepth ? blockAt(lines, i, depth) : paragraphAt(lines, i);
    block.source = lines.slice(i, block.end).join("\n");
    blocks.push(block);
    i = block.end;
  }
  return blocks;
}

function blockAt(lines, i, depth) {
  const line = lines[i];
  let match;
  if ((match = fenceStart.exec(line))) return fenceAt(lines, i, match);
  if ((match = heading.exec(line)))
    return {
      type: "heading",
      level: match[1].length,
      text: (match[2] ?? "").trim().replace(/(^|[ \t])#+$/, "").trim(),
      end: i + 1
    };
  if (rule.test(line)) return {type: "rule", end: i + 1};
  if (/^ {0,3}>/.test(line)) return quoteAt(lines, i, depth);
  if (item.test(line)) return listAt(lines, i, depth);
  if (mathStart.test(line)) return mathAt(lines, i);
  if (line.includes("|") && i + 1 < lines.length && tableRule.test(lines[i + 1]) &&
      cells(line).length === cells(lines[i + 1]).length)
    return tableAt(lines, i);
  return paragraphAt(lines, i);
}

function fenceAt(lines, i, [, fence, info]) {
  const indent = indentOf(lines[i]);
  const closing = new RegExp(`^ {0,3}\\${fence[0]}{${fence.length},}[ \\t]*$`);
  let end = i + 1;
  while (end < lines.length && !closing.test(lines[end])) ++end;
  const code = lines.slice(i + 1, end).map((line) => line.slice(Math.min(indent, indentOf(line)))).join("\n");
  return {
    type: "code",
    language: info.trim().split(/\s/)[0].toLowerCase().slice(0, 40),
    code,
    closed: end < lines.length,
    end: Math.min(end + 1, lines.length)
  };
}

function quoteAt(lines, i, depth) {
  let end = i;
  while (end < lines.length && (/^ {0,3}>/.test(lines[end]) || (!blank(lines[end]) && !startsBlock(lines[end])))) ++end;
  return {
    type: "quote",
    blocks: parseBlocks(lines.slice(i, end).map((line) => line.replace(/^ {0,3}> ?/, "")), depth + 1),
    end
  };
}

function listAt(lines, i, depth) {
  const ordered = /\d/.test(item.exec(lines[i])[2][0]), mark = item.exec(lines[i])[2].at(-1);
  const items = [];
  let end = i;
  while (end < lines.length) {
    const match = item.exec(lines[end]);
    if (!match || match[2].at(-1) !== mark || rule.test(lines[end])) break;
    const width = Math.min(match[0].length, match[1].length + match[2].length + 1);
    const body = [lines[end].slice(match[0].length)];
    for (++end; end < lines.length; ++end) {
      const line = lines[end];
      if (blank(line)) {
        if (end + 1 < lines.length && indentOf(lines[end + 1]) >= width && !blank(lines[end + 1])) {
          body.push("");
          continue;
        }
        break;
      }
      if (indentOf(line) >= Math.min(width, 2)) body.push(line.slice(Math.min(width, indentOf(line))));
      else if (!startsBlock(line) && !blank(body.at(-1))) body.push(line);
      else break;
    }
    items.push(parseBlocks(body, depth + 1));
    let next = end;
    while (next < lines.length && blank(lines[next])) ++next;
    const following = next < lines.length ? item.exec(lines[next]) : null;
    if (next > end && following?.[2].at(-1) === mark) end = next; // loose lists go on
    else if (next > end) break;
  }
  return {type: "list", ordered, start: ordered ? parseInt(item.exec(lines[i])[2], 10) : 1, items, end};
}

function mathAt(lines, i) {
  const close = mathStart.exec(lines[i])[1] === "$$" ? "$$" : "\\]";
  let end = i;
  if (!lines[i].trim().slice(2).includes(close)) do
      ++end;
    while (end < lines.length && !lines[end].includes(close) && !blank(lines[end]));
  end = Math.min(end + 1, lines.length);
  return {type: "math", text: lines.slice(i, end).join("\n").trim(), end};
}

function cells(line) {
  const parts = [""];
  let inCode = false;
  for (let i = 0; i < line.length; ++i) {
    if (line[i] === "`") inCode = !inCode;
    if (line[i] === "\\" && line[i + 1] === "|") {
      parts[parts.length - 1] += "|";
      ++i;
    } else if (line[i] === "|" && !inCode) parts.push("");
    else parts[parts.length - 1] += line[i];
  }
  if (blank(parts[0])) parts.shift();
  if (parts.length && blank(parts.at(-1))) parts.pop();
  return parts.map((part) => part.trim());
}

function tableAt(lines, i) {
  const align =
      cells(lines[i + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
  let end = i + 2;
  while (end < lines.length && !blank(lines[end]) && lines[end].includes("|")) ++end;
  return {type: "table", align, head: cells(lines[i]), rows: lines.slice(i + 2, end).map(cells), end};
}

function paragraphAt(lines, i) {
  let end = i + 1;
  while (end < lines.length && !blank(lines[end]) && !startsBlock(lines[end])) ++end;
  return {type: "paragraph", text: lines.slice(i, end).map((line) => line.trim()).join("\n"), end};
}

// ---- inside a line --------------------------------------------------------------------------------------------------

const special = /[\\`*_~[\]!<$\n]|https?:\/\//g;
const bareUrl = /https?:\/\/[^\s<>"'`|\\^{}]{1,2000}/y;
const angled = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const math =
    /\\\(.{1,2000}?\\\)|\\\[.{1,2000}?\\\]|\$\$[^$\n]{1,2000}\$\$|\$(?=[^\s$])[^$\n]{0,500}[^\s$]\$(?!\d)|\$[^\s$]\$(?!\d)/y;
const target =
    /\(\s{0,9}<?((?:[^\s()<>]|\([^\s()<>]{0,500}\)){0,2000})>?(?:\s{1,9}["'(][^"'()]{0,500}["')])?\s{0,9}\)/y;

const at = (pattern, text, i) => {
  pattern.lastIndex = i;
  return pattern.exec(text);
};

/** What an address may be: absolute, and of a kind that only leads somewhere. */
export function safeAddress(text) {
  let url;
  try {
    url = new URL(text);
  } catch { return null; }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
}

function link(address, ...children) {
  return h("a", {href: address, target: "_blank", rel: "noopener noreferrer", title: address}, ...children);
}

/** Positions of the brackets that close those at each position. */
function brackets(text) {
  const closing = new Map(), open = [];
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === "\\") ++i;
    else if (text[i] === "[") open.push(i);
    else if (text[i] === "]" && open.length) closing.set(open.pop(), i);
  }
  return closing;
}

/** Ends of the runs of backticks, by length, so that an opener without a closer costs nothing. */
function codeEnds(text) {
  const ends = new Map();
  for (const match of text.matchAll(/`+/g)) {
    if (!ends.has(match[0].length)) ends.set(match[0].length, []);
    ends.get(match[0].length).push(match.index);
  }
  return ends;
}

const isSpace = (c) => c === undefined || /\s/.test(c);
const isWord = (c) => c !== undefined && /[\p{L}\p{N}]/u.test(c);

/** Nodes for a line of text. `linked`: inside a link, where there are no further ones. */
function inline(text, linked = false) {
  const frames = [{nodes: []}]; // emphasis that is open: {mark, length, nodes}
  const put = (...nodes) => frames.at(-1).nodes.push(...nodes);
  const closers = linked ? new Map() : brackets(text);
  const ticks = codeEnds(text);
  let plain = "", i = 0;
  const flush = () => {
    if (plain) put(plain);
    plain = "";
  };
  const node = (made, end) => {
    flush();
    put(made);
    i = end;
  };

  while (i < text.length) {
    const next = at(special, text, i);
    if (!next) break;
    plain += text.slice(i, next.index);
    i = next.index;
    const c = text[i];
    let match;
    if (c === "\n") node(h("br"), i + 1);
    else if ((c === "\\" || c === "$") && (match = at(math, text, i)))
      node(h("span", {class: "math"}, match[0]), i + match[0].length);
    else if (c === "\\" && /[!-/:-@[-`{-~]/.test(text[i + 1] ?? "")) {
      plain += text[i + 1];
      i += 2;
    } else if (c === "`") {
      const length = at(/`+/y, text, i)[0].length;
      const ends = ticks.get(length) ?? []; // none: the run began with an escaped one
      while (ends.length && ends[0] < i + length) ends.shift();
      if (ends.length) node(h("code", {}, codeText(text.slice(i + length, ends[0]))), ends[0] + length);
      else {
        plain += "`".repeat(length);
        i += length;
      }
    } else if (c === "<" && !linked && (match = at(angled, text, i)) && safeAddress(match[1]))
      node(link(safeAddress(match[1]), match[1]), i + match[0].length);
    else if (c === "h" && !linked && (match = at(bareUrl, text, i))) {
      const url = trimUrl(match[0]);
      if (safeAddress(url)) node(link(safeAddress(url), url), i + url.length);
      else {
        plain += url;
        i += url.length;
      }
    } else if (c === "[" || (c === "!" && text[i + 1] === "[")) {
      const from = c === "[" ? i : i + 1, close = closers.get(from);
      match = close === undefined ? null : at(target, text, close + 1);
      const address = match && safeAddress(match[1]);
      if (address)
        node(link(address, ...inline(text.slice(from + 1, close) || address, true)), close + 1 + match[0].length);
      else {
        plain += text.slice(i, from + 1);
        i = from + 1;
      }
    } else if (c === "*" || c === "_" || c === "~") {
      const length = at(c === "*" ? /\*+/y : c === "_" ? /_+/y : /~+/y, text, i)[0].length;
      flush();
      delimiter(frames, c, length, text[i - 1], text[i + length]);
      i += length;
    } else {
      plain += c === "h" ? next[0] : c;
      i += c === "h" ? next[0].length : 1;
    }
  }
  plain += text.slice(i);
  flush();
  while (frames.length > 1) reopen(frames);
  return frames[0].nodes;
}

const codeText = (text) => {
  const one = text.replace(/\n/g, " ");
  return one.startsWith(" ") && one.endsWith(" ") && one.trim() ? one.slice(1, -1) : one;
};
function trimUrl(url) {
  let end = url.length;
  for (;;) {
    if (/[.,;:!?*_~]/.test(url[end - 1])) --end;
    else if (")]".includes(url[end - 1]) && !url.slice(0, end).includes(url[end - 1] === ")" ? "(" : "[")) --end;
    else return url.slice(0, end);
  }
}

/** The innermost open mark turns out to be text. */
function reopen(frames) {
  const {mark, length, nodes} = frames.pop();
  frames.at(-1).nodes.push(mark.repeat(length), ...nodes);
}

/** A run of *, _ or ~ closes what it can, and opens with the rest. */
function delimiter(frames, mark, length, before, after) {
  const inWord = isWord(before) && isWord(after);
  const canClose = !isSpace(before) && !(mark === "_" && inWord);
  const canOpen = !isSpace(after) && !(mark === "_" && inWord) && frames.length <= kMaxDepth &&
      !(mark === "~" && length !== 2) && length <= 3;
  while (canClose && length > 0 && frames.some((frame) => frame.mark === mark)) {
    while (frames.at(-1).mark !== mark) reopen(frames);
    const top = frames.at(-1), use = Math.min(2, top.length, length);
    if ((mark === "~" && use < 2) || (top.nodes.length === 0)) break;
    const made = h(mark === "~" ? "del" : use === 2 ? "strong" : "em", {}, ...top.nodes);
    length -= use;
    top.length -= use;
    if (top.length > 0) top.nodes = [made];
    else {
      frames.pop();
      frames.at(-1).nodes.push(made);
    }
  }
  if (length === 0) return;
  if (canOpen) frames.push({mark, length, nodes: []});
  else frames.at(-1).nodes.push(mark.repeat(length));
}

// ---- to the page ----------------------------------------------------------------------------------------------------

function render(block) {
  switch (block.type) {
    case "heading": return h(`h${Math.min(6, block.level + 2)}`, {}, ...inline(block.text)); // below the page's own
    case "rule": return h("hr");
    case "code": return codeBlock(block);
    case "quote": return h("blockquote", {}, ...block.blocks.map(render));
    case "list":
      return h(
          block.ordered ? "ol" : "ul", block.start !== 1 ? {start: String(block.start)} : {},
          ...block.items.map(renderItem));
    case "math": return h("p", {class: "math"}, block.text);
    case "table": return table(block);
    default: return h("p", {}, ...inline(block.text));
  }
}

function renderItem(blocks) {
  const [first, ...rest] = blocks;
  if (first?.type !== "paragraph") return h("li", {}, ...blocks.map(render));
  const task = /^\[([ xX])\]\s+/.exec(first.text);
  const box = task &&
      h("span", {class: "task", role: "img", "aria-label": task[1] === " " ? "not done" : "done"},
        task[1] === " " ? "☐ " : "☑ ");
  return h("li", {}, box, ...inline(task ? first.text.slice(task[0].length) : first.text), ...rest.map(render));
}

function table({align, head, rows}) {
  const cell = (tag, text, column) =>
      h(tag, {class: `align-${align[column] ?? "left"}`, ...(tag === "th" ? {scope: "col"} : {})}, ...inline(text));
  return h(
      "div", {class: "table-scroll", tabindex: "0", role: "group", "aria-label": "Table"},
      h("table", {}, h("thead", {}, h("tr", {}, ...head.map((text, column) => cell("th", text, column)))),
        h("tbody", {},
          ...rows.map(
              (row) => h("tr", {}, ...row.slice(0, head.length).map((text, column) => cell("td", text, column)))))));
}

function codeBlock(block) {
  const code = h("code", {});
  const box =
      h("div", {class: "code"},
        h("div", {class: "code-head"}, h("span", {}, block.language || "text"),
          iconButton("copy", "Copy code", (event) => copyText(code.textContent, event.currentTarget))),
        h("pre", {tabindex: "0", role: "group", "aria-label": `Code, ${block.language || "text"}`}, code));
  fillCode(box, block);
  return box;
}

function fillCode(box, block) {
  const code = box.querySelector("code");
  if (block.closed) code.replaceChildren(highlight(block.code, block.language));
  else code.textContent = block.code;
}

/** Shows a text that grows: blocks that stay the same keep their elements (and what the reader selected in them). */
export class MarkdownView {
  constructor(element) {
    this.element = element;
    this.blocks = [];
  }

  show(text) {
    const blocks = parseBlocks(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), 0);
    let same = 0;
    while (same < blocks.length && same < this.blocks.length && blocks[same].source === this.blocks[same].source &&
           blocks[same].closed === this.blocks[same].closed)
      ++same;
    const old = this.blocks[same], now = blocks[same], place = this.element.children[same];
    if (old?.type === "code" && now?.type === "code" && old.language === now.language && !old.closed) {
      fillCode(place, now); // the growing block keeps its copy button, and the focus on it
      ++same;
    }
    while (this.element.childElementCount > same) this.element.lastElementChild.remove();
    this.element.append(...blocks.slice(same).map(render));
    this.blocks = blocks;
  }
}
