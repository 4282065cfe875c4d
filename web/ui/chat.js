// The conversation on the screen: what is typed, which branch is shown, which answers are being made.
import {$, announce, h, toast} from "./dom.js";
import {count} from "./format.js";
import {generate} from "./generate.js";
import {MessageView} from "./message.js";
import {chatById, saveChat} from "./store.js";
import {Conversation} from "./tree.js";

const suggestions = [
  "Tell me a short story about a hummingbird.", "Explain what a mixture of experts is, in three sentences.",
  "Write a Python function that merges two sorted lists."
];

let chat = new Conversation();
let facts = {model: "", context: 0}; // of the server
let hooks = {};                      // {listChanged(), showExperts(node), answered(node)}
const running = new Map();           // chat id -> {controller, node, state}
let views = new Map();               // node id -> MessageView, of the chosen branch
let stick = true;                    // the view follows the end of the text

export const currentChat = () => chat;
export const isRunning = (id) => running.has(id);
export function setFacts(known) {
  facts = {...facts, ...known};
  meter();
}

export function startChat(given) {
  hooks = given;
  const prompt = $("prompt");
  $("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  $("stop").addEventListener("click", stop);
  prompt.addEventListener("input", grow);
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
    if (event.key === "Escape" && running.has(chat.id)) {
      event.preventDefault();
      stop();
    }
  });
  const scroller = $("messages");
  scroller.addEventListener("scroll", () => {
    stick = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
    $("latest").hidden = stick;
  }, {passive: true});
  $("latest").addEventListener("click", () => {
    stick = true;
    follow();
  });
  addEventListener("pagehide", () => running.forEach((_, id) => keep(chatById(id))));
  show(chat);
}

export function show(other) {
  chat = other;
  stick = true;
  draw();
  hooks.listChanged();
}

export function newChat() {
  const {system} = chat;
  show(new Conversation({system}));
  $("prompt").focus();
}

export function chatSettingsChanged() {
  if (chatById(chat.id)) keep(chat);
}

async function keep(some) {
  if (!some) return;
  try {
    await saveChat(some);
  } catch { toast("The browser's storage is full: this chat is not kept. Export it, or delete others."); }
}

// ---- drawing --------------------------------------------------------------------------------------------------------

function draw() {
  const path = chat.path();
  const run = running.get(chat.id);
  views = new Map(path.map(
      (node) => [node.id, new MessageView(node, chat.place(node), calls, run?.node === node ? run.state : null)]));
  $("thread").replaceChildren(...(path.length ? Array.from(views.values(), (view) => view.element) : [welcome()]));
  busy();
  meter();
  follow();
}

function welcome() {
  return h(
      "div", {class: "welcome"}, h("h2", {}, "What shall we talk about?"),
      h("p", {}, "Everything stays between this browser and this server."),
      h("div", {class: "suggestions"},
        ...suggestions.map(
            (text) =>
                h("button", {
                  type: "button",
                  on: {
                    click: () => {
                      $("prompt").value = text;
                      grow();
                      $("prompt").focus();
                    }
                  }
                },
                  text))));
}

function busy() {
  const on = running.has(chat.id);
  $("stop").hidden = !on;
  $("send").hidden = on;
}

function follow() {
  if (stick) $("messages").scrollTop = $("messages").scrollHeight;
}

function grow() {
  const prompt = $("prompt");
  prompt.style.height = "auto";
  prompt.style.height = `${Math.min(prompt.scrollHeight, innerHeight * 0.4)}px`;
}

/** How full the context is after the last answer. */
function meter() {
  const {stats} = chat.path().findLast((node) => node.stats) ?? {};
  const used = stats ? (stats.promptTokens ?? 0) + (stats.answerTokens ?? 0) : 0;
  const box = $("context");
  box.hidden = !(facts.context > 0 && used > 0);
  if (box.hidden) return;
  box.replaceChildren(
      h("meter", {
        min: "0",
        max: String(facts.context),
        high: String(0.85 * facts.context),
        value: String(used),
        "aria-label": "Context used"
      }),
      h("span", {}, `${count(used)} of ${count(facts.context)} tokens`));
}

/** Draws again and puts the focus where it was: on the button of the same name in the message at the same place. */
function redraw(focus) {
  const messages = () => [...$("thread").children];
  const place = messages().findIndex((element) => element.contains(document.activeElement));
  const label = document.activeElement?.getAttribute("aria-label");
  draw();
  if (focus === false || place < 0) return;
  const buttons = [...(messages()[Math.min(place, messages().length - 1)]?.querySelectorAll("button") ?? [])].filter(
      (button) => !button.disabled);
  (buttons.find((button) => button.getAttribute("aria-label") === label) ?? buttons[0] ?? $("prompt")).focus({
    preventScroll: true
  });
}

// ---- what happens ---------------------------------------------------------------------------------------------------

const calls = {
  edit(node, text) {
    if (refuseWhileRunning()) return;
    const made = chat.add(chat.parent(node), {role: "user", content: text});
    answer(made);
  },
  again(node) {
    if (!refuseWhileRunning()) answer(chat.parent(node));
  },
  choose(node, index) {
    if (refuseWhileRunning()) return;
    chat.choose(node, index);
    keep(chat);
    redraw();
  },
  remove(node) {
    if (refuseWhileRunning()) return;
    const from = chat, undo = from.remove(node);
    keep(from);
    redraw();
    toast("Message deleted", {
      label: "Undo",
      call: () => {
        undo();
        keep(from);
        if (chat === from) draw();
      }
    });
  },
  answered(node) {
    const path = chat.path(), place = path.indexOf(node);
    const next = path.slice(place + 1);
    const end = next.findIndex((after) => after.role !== "tool");
    return (end < 0 ? next : next.slice(0, end)).map((after) => after.toolCallId);
  },
  result(node, call, text) {
    if (refuseWhileRunning()) return;
    const done = new Set([...calls.answered(node), call.id]);
    const made = chat.add(chat.last(), {role: "tool", toolCallId: call.id, content: text});
    if (node.toolCalls.every(({id}) => done.has(id))) answer(made);
    else {
      keep(chat);
      redraw();
    }
  },
  showExperts: (node) => hooks.showExperts(node),
  newChat,
};

function refuseWhileRunning() {
  if (!running.has(chat.id)) return false;
  announce("An answer is being made; stop it first.");
  return true;
}

function send() {
  const text = $("prompt").value;
  if (!text.trim() || refuseWhileRunning()) return;
  $("prompt").value = "";
  grow();
  answer(chat.add(chat.last(), {role: "user", content: text}));
}

function stop() { running.get(chat.id)?.controller.abort(); }

async function answer(parent) {
  const made = chat, node = made.add(parent, {role: "assistant"});
  const run = {
    controller: new AbortController(),
    node,
    state: {progress: null, queue: null, tokens: 0, since: performance.now()}
  };
  running.set(made.id, run);
  stick = true;
  redraw(false);
  if (!$("composer").contains(document.activeElement)) $("prompt").focus();
  await keep(made);
  hooks.listChanged();
  const speech = new Speech();
  let frame = 0;
  await generate(made, node, facts.model, run.controller.signal, (state) => {
    run.state = state;
    speech.hear(node.content);
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      if (running.get(made.id) === run && chat === made) {
        views.get(node.id)?.update(state);
        follow();
      }
    });
  });
  cancelAnimationFrame(frame);
  running.delete(made.id);
  made.updated = Date.now();
  if (chat === made) {
    views.get(node.id)?.update(null);
    busy();
    meter();
    follow();
    if (document.activeElement === document.body) $("prompt").focus(); // the stop button, which had it, is gone
  }
  speech.end(node);
  await keep(made);
  hooks.listChanged();
  hooks.answered(node);
}

/** Says the answer to screen readers in whole sentences, not in tokens. */
class Speech {
  said = 0;

  hear(text) {
    const fresh = text.slice(this.said);
    if (fresh.length < 120) return;
    const cut = Math.max(...[". ", "! ", "? ", ".\n", ":\n", "\n\n"].map((end) => fresh.lastIndexOf(end))) + 1;
    if (cut < 40) return;
    announce(fresh.slice(0, cut));
    this.said += cut;
  }

  end(node) {
    announce(node.content.slice(this.said));
    if (node.finish === "stopped") announce("Stopped.");
    else if (!node.error)
      announce(
          node.toolCalls?.length ? `Tool call: ${node.toolCalls.map((call) => call.name).join(", ")}.` :
                                   "Answer complete.");
  }
}

/** Another tab changed a chat. */
export function chatChangedElsewhere(id) {
  if (id === chat.id && !running.has(id) && chatById(id)) {
    chat = chatById(id);
    draw();
  }
  hooks.listChanged();
}
