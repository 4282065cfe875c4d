// One message of the conversation: made once, brought up to date while it grows.
import {copyText, h, icon, iconButton} from "./dom.js";
import {count, rate, seconds} from "./format.js";
import {MarkdownView} from "./markdown.js";

const names = {
  user: "You",
  assistant: "Model",
  tool: "Tool result"
};

/**
 * `state`: of generate() while this answer is being made, else null. `calls`: {edit, again, remove, choose(index),
 * result(call, text), showExperts, newChat}.
 */
export class MessageView {
  constructor(node, place, calls, state) {
    Object.assign(this, {node, place, calls});
    this.body = h("div", {class: "body"});
    this.extras = h("div", {class: "extras"});
    this.foot = h("div", {class: "foot"});
    this.element =
        h("article", {class: `message ${node.role}`, "aria-label": names[node.role], data: {id: node.id}},
          h("h3", {class: "visually-hidden"}, names[node.role]), node.role === "assistant" && this.thinking(),
          this.body, this.extras, this.foot);
    if (node.role === "assistant") this.text = new MarkdownView(this.body);
    else this.body.append(h(node.role === "tool" ? "pre" : "p", {class: "plain-text"}, node.content));
    this.results = new Map(); // what was typed for tool calls
    this.update(state);
  }

  thinking() {
    this.thought = new MarkdownView(h("div", {class: "thought"}));
    this.summary = h("summary", {});
    this.details = h("details", {class: "thinking", hidden: true}, this.summary, this.thought.element);
    return this.details;
  }

  update(state) {
    const {node} = this;
    if (node.role === "assistant") {
      this.showThinking(state);
      this.text.show(node.content);
      this.body.hidden = node.content === "";
      this.element.setAttribute("aria-busy", String(state !== null));
      this.element.classList.toggle("growing", state !== null);
      this.extras.replaceChildren(...this.waiting(state), ...this.toolCalls(state), ...this.trouble(state));
    }
    this.foot.replaceChildren(...(state === null ? this.footer() : []));
  }

  showThinking(state) {
    const {node} = this;
    this.details.hidden = !node.reasoning;
    if (!node.reasoning) return;
    const busy = state !== null && node.content === "" && !node.toolCalls;
    this.summary.textContent = busy ? "Thinking…" :
        node.stats?.thinkingSeconds ? `Thought for ${seconds(node.stats.thinkingSeconds)}` :
                                      "Thoughts";
    this.thought.show(node.reasoning);
  }

  waiting(state) {
    if (!state || state.tokens > 0) return [];
    const {progress, queue} = state;
    if (!progress)
      return [h(
          "p", {class: "waiting"},
          queue > 0 ? `Waiting for ${count(queue)} other request${queue === 1 ? "" : "s"}` : "Waiting for the model")];
    const {total = 0, cache = 0, processed = 0, time_ms: spent = 0} = progress;
    const done = total > 0 ? Math.min(1, processed / total) : 0;
    const left = processed > cache ? (spent / 1000) * (total - processed) / (processed - cache) : NaN;
    const text = `Reading the prompt: ${count(processed)} of ${count(total)} tokens${
        cache > 0 ? `, ${count(cache)} known already` :
                    ""}${left > 0.5 ? `, about ${seconds(Math.ceil(left), 0)} left` : ""}`;
    const bar = h("progress", {max: "1", value: String(done), "aria-label": "Prompt read"});
    return [h("div", {class: "reading"}, bar, h("p", {}, text))];
  }

  toolCalls(state) {
    const calls = this.node.toolCalls ?? [];
    const answered = new Set(state === null ? this.calls.answered(this.node) : []);
    return calls.map((call, index) => {
      const open = state === null && this.node.finish === "tool_calls" && !answered.has(call.id);
      const area =
          h("textarea",
            {rows: 2, class: "mono", id: `result-${this.node.id}-${index}`, placeholder: "What the tool answers"});
      area.value = this.results.get(index) ?? "";
      area.addEventListener("input", () => this.results.set(index, area.value));
      return h(
          "section", {class: "tool-call", "aria-label": `Tool call ${call.name}`},
          h("header", {}, icon("tool"), h("strong", {}, call.name || "…"),
            answered.has(call.id) && h("span", {class: "badge"}, "answered")),
          h("pre", {tabindex: "0", role: "group", "aria-label": "Arguments"}, pretty(call.arguments)),
          open &&
              h("form", {
                on: {
                  submit: (event) => {
                    event.preventDefault();
                    this.calls.result(this.node, call, area.value);
                  }
                }
              },
                h("label", { for: area.id
                }, `Result of ${call.name}`), area, h("button", {type: "submit", class: "primary"}, "Give result")));
    });
  }

  trouble(state) {
    const {node} = this;
    if (state !== null || !node.error) return [];
    const overflow = node.errorCode === "context_length_exceeded" || /maximum context length/.test(node.error);
    const help = overflow &&
        h("p", {},
          "The chat no longer fits. Delete earlier messages, shorten the last one, lower “Longest answer” in the settings, or start a new chat; the server's --context sets the limit.");
    return [h(
        "div", {class: "error", role: "alert"}, h("p", {}, node.error), help,
        h("div", {class: "row"}, h("button", {type: "button", on: {click: () => this.calls.again(node)}}, "Try again"),
          overflow && h("button", {type: "button", on: {click: this.calls.newChat}}, "New chat")))];
  }

  footer() {
    const {node, place, calls} = this, parts = [];
    if (place.count > 1) {
      parts.push(
          h("span", {class: "branches", role: "group", "aria-label": "Versions"},
            iconButton(
                "left", "Earlier version", () => calls.choose(node, place.index - 1), {disabled: place.index === 0}),
            h("span", {}, `${place.index + 1}/${place.count}`),
            iconButton(
                "right", "Later version", () => calls.choose(node, place.index + 1),
                {disabled: place.index === place.count - 1})));
    }
    if (node.content)
      parts.push(iconButton("copy", "Copy message", (event) => copyText(node.content, event.currentTarget)));
    if (node.role === "user") parts.push(iconButton("edit", "Edit and send again", () => this.edit()));
    if (node.role === "assistant") parts.push(iconButton("again", "Regenerate", () => calls.again(node)));
    parts.push(iconButton("trash", "Delete message", () => calls.remove(node)));
    if (node.experts)
      parts.push(iconButton("experts", "Show the experts of this answer", () => calls.showExperts(node)));
    if (node.finish === "length")
      parts.push(
          h("span", {class: "badge warn", title: "The longest answer or the end of the context was reached"},
            "truncated"));
    if (node.finish === "stopped") parts.push(h("span", {class: "badge"}, "stopped"));
    parts.push(...statistics(node.stats));
    return parts;
  }

  /** The message becomes a field; sending makes another version of it. */
  edit() {
    const area =
        h("textarea", {rows: Math.min(12, this.node.content.split("\n").length + 1), "aria-label": "Edit message"});
    area.value = this.node.content;
    const done = () => {
      form.replaceWith(this.body);
      this.foot.hidden = false;
      this.foot.querySelector('[aria-label^="Edit"]')?.focus();
    };
    const form =
        h("form", {
          class: "edit",
          on: {
            submit: (event) => {
              event.preventDefault();
              if (area.value.trim()) this.calls.edit(this.node, area.value);
            }
          }
        },
          area,
          h("div", {class: "row end"}, h("button", {type: "button", class: "plain", on: {click: done}}, "Cancel"),
            h("button", {type: "submit", class: "primary"}, "Send")));
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") done();
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    this.body.replaceWith(form);
    this.foot.hidden = true;
    area.focus();
  }
}

function statistics(stats) {
  if (!stats) return [];
  const part = (value, unit, title) => h("span", {class: "stat", title}, h("b", {}, value), ` ${unit}`);
  return [
    stats.tokensPerSecond !== null && part(rate(stats.tokensPerSecond), "tok/s", "Tokens a second, after the first"),
    stats.firstTokenSeconds !== null && part(seconds(stats.firstTokenSeconds), "to first", "Time to the first token"),
    stats.answerTokens !== null &&
        part(
            count(stats.answerTokens), "tokens",
            stats.promptTokens === null ? "Tokens of the answer" :
                                          `Tokens of the answer; the prompt had ${count(stats.promptTokens)}`),
    stats.cachedTokens > 0 &&
        part(count(stats.cachedTokens), "cached", "Tokens of the prompt that were computed before"),
  ].filter(Boolean);
}

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch { return json; }
}
