// Making elements. Text goes in as text: nothing here, and nothing else in the page, parses markup.

const svgNames = new Set(["svg", "path", "circle", "polyline", "rect", "line"]);

/**
 * An element. Props: `on` {event: call}, `data` {name: value}, `class`; the rest are attributes (false, null: none).
 */
export function h(tag, props = {}, ...children) {
  const element =
      svgNames.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on")
      for (const [event, call] of Object.entries(value)) element.addEventListener(event, call);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const icons = {
  copy: "M9 9h10v10H9zM5 15V5h10",
  check: "M5 12.5l4.5 4.5L19 7.5",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  again: "M20 11a8 8 0 1 0-2.5 6.5M20 5v6h-6",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  sliders: "M4 7h9M17 7h3M4 17h3M11 17h9M13 4.5v5M7 14.5v5",
  experts: "M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM14 14h6v6h-6z",
  system: "M4 18V10M10 18V5M16 18v-6M21 18H3",
  chat: "M4 5h16v11H10l-4 4v-4H4z",
  theme: "M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9z",
  close: "M6 6l12 12M18 6L6 18",
  pause: "M8 5v14M16 5v14",
  play: "M8 5l11 7-11 7z",
  tool: "M14 6a4 4 0 0 0 5 5l-9 9-4-4 9-9zM14 6l3-3 4 4-3 3",
  down: "M12 5v14M6 13l6 6 6-6",
  up: "M12 19V5M6 11l6-6 6 6",
};

export function icon(name) {
  return h("svg", {viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true"}, h("path", {d: icons[name]}));
}

/** A button with an icon; its name is also its tooltip. */
export function iconButton(name, label, call, props = {}) {
  return h(
      "button", {type: "button", class: "icon-button", "aria-label": label, title: label, on: {click: call}, ...props},
      icon(name));
}

export const $ = (id) => document.getElementById(id);

let speaking = 0;
/** Says something to screen readers, politely. */
export function announce(text) {
  if (!text.trim()) return;
  const line = h("p", {}, text);
  $("live").append(line);
  while ($("live").childElementCount > 4) $("live").firstChild.remove();
  clearTimeout(speaking);
  speaking = setTimeout(() => $("live").replaceChildren(), 15000);
}

/** A note at the bottom, with something to do about it. */
export function toast(text, action) {
  const box = $("toast");
  clearTimeout(toast.timer);
  const close = () => box.replaceChildren();
  const note =
      h("div", {class: "toast"}, h("span", {}, text),
        action &&
            h("button", {
              type: "button",
              class: "plain",
              on: {
                click: () => {
                  close();
                  action.call();
                }
              }
            },
              action.label),
        iconButton("close", "Dismiss", close));
  box.replaceChildren(note);
  toast.timer = setTimeout(close, action ? 12000 : 5000);
}

export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no clipboard outside https and localhost
    const area = h("textarea", {class: "visually-hidden"});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.replaceChildren(icon("check"));
  announce("Copied");
  setTimeout(() => button.replaceChildren(icon("copy")), 1500);
}

export function download(name, type, data) {
  const url = URL.createObjectURL(data instanceof Blob ? data : new Blob([data], {type}));
  h("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
