// Start: the frame around the views, the list of chats, the theme, and what the server says about itself.
import {json, onKeyWanted, request} from "./api.js";
import {chatChangedElsewhere, chatSettingsChanged, currentChat, isRunning, newChat, setFacts, show, startChat} from "./chat.js";
import {$, download, h, icon, iconButton, toast} from "./dom.js";
import {startExperts} from "./experts.js";
import {bytes, percent, seconds} from "./format.js";
import {askForKey, changedSettings, loadSettings, openSettings, setDefaults} from "./settings.js";
import {chatById, deleteChat, listChats, openStore, saveChat} from "./store.js";
import {startSystem} from "./system.js";
import {Conversation} from "./tree.js";

const wide = matchMedia("(min-width: 1100px)"), dark = matchMedia("(prefers-color-scheme: dark)");
const remembered = (name) => {
  try {
    return localStorage.getItem(`colibri-${name}`);
  } catch { return null; }
};
const remember = (name, value) => {
  try {
    localStorage.setItem(`colibri-${name}`, value);
  } catch { /* as long as the page */
  }
};

// ---- views ----------------------------------------------------------------------------------------------------------

const panels = {}; // experts, system: {show(visible)}
let serverIsReady = false;

function buildBar() {
  $("menu-place")
      .append(
          iconButton("menu", "Chats", toggleChats, {id: "menu", "aria-controls": "chats", "aria-expanded": "false"}));
  const button = (view, label) =>
      h("button", {type: "button", data: {view}, on: {click: () => choose(view)}}, icon(view), h("span", {}, label));
  $("views").append(button("chat", "Chat"), button("experts", "Experts"), button("system", "System"));
  $("bar-actions").append(iconButton("theme", "Dark or light", toggleTheme, {id: "theme"}));
  $("composer-actions")
      .append(
          iconButton(
              "sliders", "Settings",
              () => openSettings(
                  currentChat(),
                  () => {
                    chatSettingsChanged();
                    markSettings();
                  }),
              {id: "open-settings"}),
          iconButton("down", "Export this chat", exportChat));
  $("send").append(icon("send"));
  $("stop").append(icon("stop"));
  $("latest").prepend(icon("down"));
}

/** Wide: chat stays, the button shows or hides its panel beside it. Narrow: one view at a time. */
function choose(view) {
  const {body} = document;
  if (view !== "chat") {
    body.dataset.side = wide.matches && body.dataset.side === view ? "none" : view;
    remember("side", body.dataset.side);
  }
  body.dataset.view = view;
  showViews();
}

function showViews() {
  const {view, side} = document.body.dataset;
  const shown = (name) => (wide.matches ? name === "chat" || name === side : name === view);
  for (const button of $("views").children) {
    const on = shown(button.dataset.view);
    button.setAttribute("aria-pressed", String(on));
  }
  for (const [name, panel] of Object.entries(panels)) panel.show(serverIsReady && shown(name));
}

function toggleChats() {
  const open = document.body.classList.toggle(wide.matches ? "chats-away" : "chats-open");
  showChatsState();
  if (open && !wide.matches) $("search").focus();
}

function closeChats(refocus = true) {
  if (!document.body.classList.contains("chats-open")) return;
  document.body.classList.remove("chats-open");
  showChatsState();
  if (refocus) $("menu").focus();
}

function showChatsState() {
  const open =
      wide.matches ? !document.body.classList.contains("chats-away") : document.body.classList.contains("chats-open");
  $("menu").setAttribute("aria-expanded", String(open));
}

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").setAttribute("aria-pressed", String(theme === "dark"));
  dispatchEvent(new Event("themechange"));
}

function toggleTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  remember("theme", next);
  applyTheme(next);
}

// ---- chats ----------------------------------------------------------------------------------------------------------

function buildChats() {
  const search =
      h("input",
        {type: "search", id: "search", placeholder: "Search", "aria-label": "Search chats", on: {input: drawList}});
  const file = h("input", {
    type: "file",
    accept: "application/json,.json",
    class: "visually-hidden",
    id: "import",
    tabindex: "-1",
    "aria-hidden": "true",
    on: {change: importChats}
  });
  $("chats").append(
      h("button", {
        type: "button",
        id: "new-chat",
        class: "primary",
        on: {
          click: () => {
            newChat();
            document.body.classList.remove("chats-open");
            showChatsState();
          }
        }
      },
        icon("plus"), "New chat"),
      search, h("ul", {id: "chat-list"}),
      h("div", {class: "row"},
        h("button", {type: "button", class: "plain", on: {click: () => file.click()}}, icon("up"), "Import"),
        h("button", {type: "button", class: "plain", on: {click: exportAll}}, icon("down"), "Export all"), file));
  $("chats").addEventListener("keydown", (event) => {
    if (event.key === "Escape") closeChats();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest("#chats, #menu, #toast")) closeChats(false);
  });
}

function drawList() {
  const current = currentChat();
  const chats = listChats($("search").value);
  $("chat-list")
      .replaceChildren(...chats.map(
          (chat) =>
              h("li", {class: chat === current ? "current" : ""},
                h("button", {
                  type: "button",
                  class: "title",
                  "aria-current": chat === current ? "true" : null,
                  on: {
                    click: () => {
                      show(chat);
                      closeChats();
                    }
                  }
                },
                  isRunning(chat.id) && h("span", {class: "dot", role: "img", "aria-label": "answering"}),
                  chat.title || "Untitled"),
                iconButton("trash", `Delete chat ${chat.title || "Untitled"}`, () => removeChat(chat)))));
  if (!chats.length)
    $("chat-list").append(h("li", {class: "none"}, $("search").value ? "Nothing found" : "No chats yet"));
}

async function removeChat(chat) {
  if (isRunning(chat.id)) {
    toast("This chat is being answered; stop it first.");
    return;
  }
  const kept = JSON.stringify(chat);
  await deleteChat(chat.id);
  if (chat === currentChat()) newChat();
  else drawList();
  toast("Chat deleted", {
    label: "Undo",
    call: async () => {
      const back = Conversation.fromJSON(JSON.parse(kept));
      await saveChat(back);
      show(back);
    }
  });
}

const fileName = (text) => `${text.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 50) || "chat"}.json`;
function exportChat() {
  download(fileName(currentChat().title), "application/json", JSON.stringify(currentChat(), null, 1));
}
function exportAll() {
  download("colibri-chats.json", "application/json", JSON.stringify({version: 1, chats: listChats()}, null, 1));
}

async function importChats(event) {
  const [file] = event.target.files;
  if (!file) return;
  event.target.value = "";
  try {
    const raw = JSON.parse(await file.text());
    const chats =
        (Array.isArray(raw?.chats) ? raw.chats : [raw]).map((one) => Conversation.fromJSON(one)).filter(Boolean);
    if (!chats.length) throw new Error("there is no chat in it");
    for (const chat of chats) {
      if (isRunning(chat.id)) continue; // the one on the screen is newer
      await saveChat(chat);
    }
    toast(`${chats.length} chat${chats.length === 1 ? "" : "s"} imported`);
    show(chatById(chats[0].id));
  } catch (error) { toast(`${file.name} was not imported: ${error.message}`); }
}

function markSettings() {
  const n = changedSettings() + (currentChat().system.trim() ? 1 : 0);
  $("open-settings").classList.toggle("marked", n > 0);
}

// ---- the server -----------------------------------------------------------------------------------------------------

/** Waits until the server has loaded its model, and tells how far it is. */
async function ready() {
  for (;;) {
    try {
      await request("health");
      $("status").replaceChildren();
      return;
    } catch (error) {
      $("status").replaceChildren(...(error.status === 503 ? await loading() : [h("p", {}, error.message)]));
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

async function loading() {
  const body = await fetch(new URL("health", document.baseURI), {cache: "no-store"})
                   .then((response) => response.json())
                   .catch(() => null);
  if (body?.status !== "loading") return [h("p", {}, body?.error?.message ?? "The server is not ready.")];
  const {done_bytes: done, total_bytes: total, seconds: spent} = body.progress ?? {};
  const part = total > 0 ? Math.min(1, done / total) : null,
        left = part > 0 ? Math.ceil((spent * (1 - part)) / part) : NaN;
  return [
    h("progress", {max: "1", "aria-label": "Loading", ...(part === null ? {} : {value: String(part)})}),
    h("p", {},
      part === null ? "The model is being loaded." :
                      `The model is being loaded: ${percent(part, 0)} of ${bytes(total)}${
                          left >= 1 ? `, about ${seconds(left, 0)} left` : ""}`)
  ];
}

async function learn() {
  await ready();
  const models = await json("v1/models").catch(() => null);
  const props = await json("props").catch(() => null);
  const model = models?.data?.[0]?.id ?? props?.model_alias ?? "";
  $("model").textContent = model;
  $("prompt").placeholder = model ? `Message ${model}` : "Write a message";
  if (model) document.title = `${model} · Colibri`;
  const context = props?.default_generation_settings?.n_ctx;
  setFacts({model, context: typeof context === "number" ? context : 0});
  setDefaults(props?.default_generation_settings?.params);
  panels.system.setProps(props);
}

async function start() {
  buildBar();
  applyTheme(remembered("theme") ?? (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => {
    if (!remembered("theme")) applyTheme(dark.matches ? "dark" : "light");
  });
  wide.addEventListener("change", () => {
    showViews();
    showChatsState();
  });
  onKeyWanted(askForKey);
  loadSettings();
  await openStore(chatChangedElsewhere);
  buildChats();
  document.body.dataset.side =
      ["experts", "system", "none"].includes(remembered("side")) ? remembered("side") : "experts";
  panels.experts = startExperts($("experts"), currentChat);
  panels.system = startSystem($("system"));
  startChat({
    listChanged: () => {
      drawList();
      markSettings();
    },
    showExperts: (node) => {
      if (!$("experts").offsetParent) choose("experts");
      panels.experts.showAnswer(node);
    },
    answered: panels.experts.answered
  });
  showViews();
  showChatsState();
  $("prompt").focus();
  await learn();
  serverIsReady = true;
  showViews();
  addEventListener("keychange", async () => {
    await learn();
    showViews();
  });
}

start();
