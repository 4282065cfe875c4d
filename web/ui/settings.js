// What a request asks for besides the messages. Sampling values that the user leaves empty are the model's own
// (/props).
import {hasKey, setKey} from "./api.js";
import {$, h} from "./dom.js";

const kStored = "colibri-settings";

export const sampling = [
  {
    name: "temperature",
    label: "Temperature",
    min: 0,
    max: 2,
    step: 0.05,
    help: "0 always takes the most probable token"
  },
  {
    name: "top_p",
    label: "Top p",
    min: 0,
    max: 1,
    step: 0.01,
    help: "tokens that together have this probability; 1: all"
  },
  {name: "top_k", label: "Top k", min: 0, max: 1000, step: 1, help: "so many most probable tokens; 0: all"},
  {name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01, help: "at least this part of the best one's probability"},
  {name: "repetition_penalty", label: "Repetition penalty", min: 0.5, max: 2, step: 0.01, help: "1: none"},
  {name: "presence_penalty", label: "Presence penalty", min: -2, max: 2, step: 0.05, help: "0: none"},
  {name: "frequency_penalty", label: "Frequency penalty", min: -2, max: 2, step: 0.05, help: "0: none"},
  {name: "seed", label: "Seed", min: 0, max: 4294967295, step: 1, help: "empty: another one each time"},
  {
    name: "max_tokens",
    label: "Longest answer",
    min: 1,
    max: 10000000,
    step: 1,
    help: "tokens; empty: what the context leaves"
  },
];

let values = {};   // name -> number, of those that were set
let tools = "";    // JSON text
let defaults = {}; // of the model

export function loadSettings() {
  try {
    const stored = JSON.parse(localStorage.getItem(kStored)) ?? {};
    for (const {name, min, max} of sampling)
      if (typeof stored[name] === "number" && stored[name] >= min && stored[name] <= max) values[name] = stored[name];
    if (typeof stored.tools === "string" && !problemOfTools(stored.tools)) ({tools} = stored);
  } catch { /* refused or damaged storage: the defaults */
  }
}

function save() {
  try {
    localStorage.setItem(kStored, JSON.stringify({...values, tools}));
  } catch { /* they last as long as the page */
  }
}

export function setDefaults(params) { defaults = typeof params === "object" && params !== null ? params : {}; }

/** The members that the settings add to a request. */
export function requestMembers() {
  const members = {...values};
  if (tools.trim()) members.tools = JSON.parse(tools);
  return members;
}

export const changedSettings = () => Object.keys(values).length + (tools.trim() ? 1 : 0);

function problemOfTools(text) {
  if (!text.trim()) return "";
  try {
    const list = JSON.parse(text);
    return Array.isArray(list) && list.every((tool) => typeof tool?.function?.name === "string") ?
        "" :
        "Give an array of {\"type\": \"function\", \"function\": {\"name\", ...}}.";
  } catch (error) { return `Not JSON: ${error.message}`; }
}

function samplingField({name, label, min, max, step, help}) {
  const own = defaults[name];
  const input = h("input", {
    type: "number",
    id: `set-${name}`,
    name,
    min,
    max,
    step: "any",
    inputmode: "decimal",
    placeholder: typeof own === "number" ? `${own} (model)` : null,
    "aria-describedby": `help-${name}`,
    data: {step}
  });
  input.value = values[name] ?? "";
  return h("div", {class: "field"}, h("label", { for: `set-${name}`
           }, label), input, h("small", {id: `help-${name}`}, help));
}

/** Opens the dialog; `chat.system` belongs to the chat, the rest to this browser, the key to this page only. */
export function openSettings(chat, changed) {
  const dialog = $("settings");
  const system = h("textarea", {id: "set-system", rows: 4, placeholder: "How the model should behave in this chat"});
  system.value = chat.system;
  const toolText = h("textarea", {
    id: "set-tools",
    rows: 5,
    spellcheck: "false",
    class: "mono",
    "aria-describedby": "help-tools",
    placeholder: '[{"type": "function", "function": {"name": "weather", "parameters": {...}}}]'
  });
  toolText.value = tools;
  const key = h("input", {
    type: "password",
    id: "set-key",
    autocomplete: "off",
    placeholder: hasKey() ? "given" : "none",
    "aria-describedby": "help-key"
  });
  const problem = h("p", {class: "problem", role: "alert"});
  const form = h(
      "form", {method: "dialog"}, h("h2", {id: "settings-title"}, "Settings"),
      h("div", {class: "field"},
        h("label",
          { for: "set-system"
          },
          "System prompt of this chat"),
        system),
      h("fieldset", {}, h("legend", {}, "Sampling"), h("div", {class: "fields"}, ...sampling.map(samplingField))),
      h("div", {class: "field"},
        h("label",
          { for: "set-tools"
          },
          "Tools"),
        toolText,
        h("small", {id: "help-tools"}, "JSON, as in the API. You play the tool: a call shows a field for its result.")),
      h("div", {class: "field"},
        h("label",
          { for: "set-key"
          },
          "API key"),
        key, h("small", {id: "help-key"}, "Kept in this page's memory only; gone when it is closed.")),
      problem,
      h("div", {class: "dialog-actions"},
        h("button", {
          type: "button",
          class: "plain",
          on: {
            click: () => form.querySelectorAll("fieldset input").forEach((input) => {
              input.value = "";
            })
          }
        },
          "Reset sampling"),
        h("span", {class: "grow"}),
        h("button", {type: "button", class: "plain", on: {click: () => dialog.close()}}, "Cancel"),
        h("button", {type: "submit", class: "primary"}, "Save")));
  form.addEventListener("submit", (event) => {
    const wrong = problemOfTools(toolText.value);
    problem.textContent = wrong && `Tools: ${wrong}`;
    if (wrong) {
      event.preventDefault();
      toolText.focus();
      return;
    }
    values = {};
    for (const {name} of sampling) {
      const {value, valueAsNumber} = form.elements[name];
      if (value !== "") values[name] = valueAsNumber;
    }
    tools = toolText.value;
    if (key.value) setKey(key.value);
    save();
    chat.system = system.value;
    changed();
  });
  dialog.replaceChildren(form);
  dialog.showModal();
}

/** Asks for the API key; resolves to it, or to null. */
export function askForKey(wasWrong) {
  const dialog = $("key");
  return new Promise((resolve) => {
    const input =
        h("input",
          {type: "password", id: "key-input", autocomplete: "off", required: true, "aria-describedby": "key-help"});
    let answer = null;
    const form =
        h("form", {
          method: "dialog",
          on: {
            submit: () => {
              answer = input.value;
            }
          }
        },
          h("h2", {id: "key-title"}, wasWrong ? "The server refused this key" : "This server wants an API key"),
          h("div", {class: "field"},
            h("label",
              { for: "key-input"
              },
              "API key"),
            input, h("small", {id: "key-help"}, "Kept in this page's memory only; gone when it is closed.")),
          h("div", {class: "dialog-actions"}, h("span", {class: "grow"}),
            h("button", {type: "button", class: "plain", on: {click: () => dialog.close()}}, "Cancel"),
            h("button", {type: "submit", class: "primary"}, "Continue")));
    dialog.replaceChildren(form);
    dialog.addEventListener("close", () => resolve(answer), {once: true});
    dialog.showModal();
  });
}
