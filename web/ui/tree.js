// A conversation as a tree: editing or regenerating adds a sibling, so that nothing said is lost. Pure data, no DOM.
//
// Invariant: `children` of the root (`this.root`) and of every node are ids in `nodes`, each in exactly one list;
// `chosen` is an index into `children` where there are any.

const kMaxText = 4 << 20, kMaxNodes = 10000;

const newId = () => crypto.randomUUID?.() ??
    Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
const text = (value) => (typeof value === "string" ? value.slice(0, kMaxText) : "");
const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);
const numbers = (object, names) => Object.fromEntries(names.map((name) => [name, number(object?.[name])]));
const kStats = [
  "promptTokens", "cachedTokens", "answerTokens", "reasoningTokens", "firstTokenSeconds", "tokensPerSecond",
  "thinkingSeconds"
];

export class Conversation {
  constructor(fields = {}) {
    this.id = fields.id ?? newId();
    this.title = fields.title ?? "";
    this.system = fields.system ?? "";
    this.created = fields.created ?? Date.now();
    this.updated = fields.updated ?? this.created;
    this.nodes = new Map();
    this.root = {id: null, children: [], chosen: 0};
  }

  at(id) { return id === null ? this.root : this.nodes.get(id); }
  parent(node) { return this.at(node.parent); }

  /** A new last child of `parent`, chosen. */
  add(parent, fields) {
    const node = {
      id: newId(),
      content: "",
      ...fields,
      parent: parent.id,
      children: [],
      chosen: 0,
      created: fields.created ?? Date.now()
    };
    this.nodes.set(node.id, node);
    parent.chosen = parent.children.push(node.id) - 1;
    this.updated = Date.now();
    if (!this.title && node.role === "user") this.title = node.content.trim().replace(/\s+/g, " ").slice(0, 80);
    return node;
  }

  /** From the first message to the end of the chosen branch. */
  path() {
    const nodes = [];
    for (let at = this.root; at.children.length;) nodes.push(at = this.nodes.get(at.children[at.chosen]));
    return nodes;
  }

  last() { return this.path().at(-1) ?? this.root; }

  place(node) {
    const {children} = this.parent(node);
    return {index: children.indexOf(node.id), count: children.length};
  }
  choose(node, index) {
    const parent = this.parent(node);
    parent.chosen = Math.max(0, Math.min(parent.children.length - 1, index));
  }

  /** Takes a message and what followed it away; returns what puts it back. */
  remove(node) {
    const parent = this.parent(node), before = {children: [...parent.children], chosen: parent.chosen};
    const gone = [node];
    for (let i = 0; i < gone.length; ++i) gone.push(...gone[i].children.map((id) => this.nodes.get(id)));
    gone.forEach((at) => this.nodes.delete(at.id));
    parent.children = parent.children.filter((id) => id !== node.id);
    parent.chosen = Math.max(0, Math.min(parent.chosen, parent.children.length - 1));
    return () => {
      gone.forEach((at) => this.nodes.set(at.id, at));
      Object.assign(parent, before);
    };
  }

  /** What a request says: the system prompt and everything down to `node`, as OpenAI's messages. */
  messages(node) {
    const messages = [];
    for (let at = node; at.id !== null; at = this.parent(at)) {
      const message = wireForm(at);
      if (at.role === "assistant" && !message.content && !message.tool_calls)
        continue; // failed or stopped before it said anything
      if (at.role === "user" && messages[0]?.role === "user")
        messages[0].content = `${at.content}\n\n${messages[0].content}`; // templates want turns
      else messages.unshift(message);
    }
    if (this.system.trim()) messages.unshift({role: "system", content: this.system});
    return messages;
  }

  contains(words) {
    const all =
        [this.title, this.system, ...Array.from(this.nodes.values(), (node) => node.content)].join("\n").toLowerCase();
    return words.every((word) => all.includes(word));
  }

  toJSON() {
    return {
      version: 1,
      id: this.id,
      title: this.title,
      system: this.system,
      created: this.created,
      updated: this.updated,
      root: this.root,
      nodes: [...this.nodes.values()]
    };
  }

  /**
   * From a file or the browser's storage, neither of which is trusted: keeps what makes sense; null when nothing does.
   */
  static fromJSON(raw) {
    if (typeof raw !== "object" || raw === null || raw.version !== 1 || !Array.isArray(raw.nodes) ||
        raw.nodes.length > kMaxNodes)
      return null;
    const chat = new Conversation({
      id: /^[\w-]{1,64}$/.test(raw.id) ? raw.id : newId(),
      title: text(raw.title).slice(0, 200),
      system: text(raw.system),
      created: number(raw.created) ?? Date.now(),
      updated: number(raw.updated) ?? Date.now()
    });
    const found = new Map(raw.nodes.filter((node) => typeof node?.id === "string").map((node) => [node.id, node]));
    const adopt = (from, to) => { // a loop, not a recursion: a file may be one long branch
      const queue = [[from, to]];
      while (queue.length) {
        const [source, target] = queue.shift();
        for (const id of Array.isArray(source?.children) ? source.children : []) {
          const node = found.get(id);
          if (!node || !["user", "assistant", "tool"].includes(node.role)) continue;
          found.delete(id); // adopted once: no loops
          const clean = {...cleanNode(node), id, parent: target.id, children: [], chosen: 0};
          chat.nodes.set(id, clean);
          target.children.push(id);
          queue.push([node, clean]);
        }
        const chosen = Number.isInteger(source?.chosen) ? source.chosen : 0;
        target.chosen = Math.max(0, Math.min(target.children.length - 1, chosen));
      }
    };
    adopt(raw.root, chat.root);
    return chat;
  }
}

function wireForm(node) {
  if (node.role === "tool") return {role: "tool", tool_call_id: node.toolCallId, content: node.content};
  const message = {role: node.role, content: node.content};
  if (node.role !== "assistant") return message;
  if (node.reasoning) message.reasoning_content = node.reasoning;
  if (node.toolCalls?.length) {
    message.tool_calls = node.toolCalls.map(
        (call) => ({id: call.id, type: "function", function: {name: call.name, arguments: call.arguments}}));
  }
  return message;
}

function cleanNode(node) {
  const clean = {role: node.role, content: text(node.content), created: number(node.created) ?? 0};
  if (node.role === "tool") clean.toolCallId = text(node.toolCallId);
  if (node.role !== "assistant") return clean;
  if (node.reasoning) clean.reasoning = text(node.reasoning);
  for (const name of ["model", "finish", "error"])
    if (node[name]) clean[name] = text(node[name]);
  if (node.stats) clean.stats = numbers(node.stats, kStats);
  if (Array.isArray(node.toolCalls)) {
    clean.toolCalls = node.toolCalls.slice(0, 128).map(
        (call) => ({id: text(call?.id), name: text(call?.name), arguments: text(call?.arguments)}));
  }
  const experts = cleanActivations(node.experts);
  if (experts) clean.experts = experts;
  return clean;
}

/** `expert_activations` as interfaces promise them, or null. */
export function cleanActivations(raw) {
  if (!Array.isArray(raw?.layers)) return null;
  const whole = (value) => Number.isInteger(value) && value >= 0 && value <= 0xffffffff;
  return {
    layers: raw.layers.slice(0, 1024)
                .filter((layer) => whole(layer?.layer) && Array.isArray(layer.experts))
                .map((layer) => ({
                       layer: layer.layer,
                       experts: layer.experts.slice(0, 4096).filter(
                           (pair) => Array.isArray(pair) && whole(pair[0]) && whole(pair[1]))
                     }))
  };
}
