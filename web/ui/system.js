// The system view: what the plan keeps where, what the server is doing, how long things take, and how it was
// configured.
import {json, request} from "./api.js";
import {h} from "./dom.js";
import {bytes, count, percent, rate, seconds} from "./format.js";
import {parseMetrics, quantile, total} from "./prometheus.js";

const kEveryMs = 2500;

export function startSystem(root) {
  const view = {visible: false, props: null, metrics: null, before: null, timer: 0};
  const plan = h("section", {"aria-label": "Memory plan"}), now = h("section", {"aria-label": "Now"}),
        times = h("section", {"aria-label": "Latency"});
  const counts = h("section", {"aria-label": "Totals"}), about = h("section", {"aria-label": "Model and settings"}),
        note = h("p", {class: "note", role: "status", hidden: true});
  root.append(h("header", {}, h("h2", {}, "System")), note, plan, now, times, counts, about);

  async function refresh() {
    clearTimeout(view.timer);
    if (!view.visible || document.hidden) return;
    try {
      if (!view.props) setProps(await json("props"));
      const metrics = parseMetrics(await (await request("metrics")).text());
      view.before = view.metrics;
      view.metrics = {at: performance.now(), metrics};
      plan.replaceChildren(...drawPlan(metrics, view.props));
      now.replaceChildren(...drawNow(view));
      times.replaceChildren(...drawTimes(metrics));
      counts.replaceChildren(...drawCounts(metrics));
      note.hidden = true;
    } catch (error) {
      note.textContent = error.status === 404 ? "This server publishes no metrics." : error.message;
      note.hidden = false;
      if (error.status === 401 || error.status === 404) return;
    }
    view.timer = setTimeout(refresh, kEveryMs);
  }

  function setProps(props) {
    view.props = props;
    about.replaceChildren(...drawAbout(props));
  }

  document.addEventListener("visibilitychange", refresh);
  return {
    setProps,
    show(visible) {
      view.visible = visible;
      refresh();
    }
  };
}

const list = (pairs) =>
    h("dl", {class: "facts"},
      ...pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
          .flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

const parts = {
  dense: "Dense weights",
  kv: "Keys and values",
  prefixes: "Prefixes",
  workspace: "Workspace",
  rest: "Rest",
  experts: "Experts"
};

function drawPlan(metrics, props) {
  const planned =
      new Map((metrics.get("memory_planned_bytes") ?? []).map(({labels, value}) => [labels.purpose, value]));
  const shown = Object.entries(parts).filter(([name]) => planned.get(name) > 0),
        budget = total(metrics, "memory_budget_bytes"), sum = total(metrics, "memory_planned_bytes");
  if (!shown.length) return [];
  const whole = Math.max(budget ?? 0, sum), model = props?.model ?? {}, all = model.n_moe_layers * model.n_experts,
        resident = total(metrics, "experts_resident");
  const bar =
      h("div",
        {class: "plan-bar", role: "img", "aria-label": `Memory plan: ${bytes(sum)} of a budget of ${bytes(budget)}`},
        ...shown.map(([name]) => {
          const part = h("span", {class: `part ${name}`});
          part.style.width = `${(100 * planned.get(name)) / whole}%`;
          return part;
        }));
  const key = (name, label, value) =>
      h("li", {}, h("span", {class: `swatch part ${name}`, "aria-hidden": "true"}), label, h("b", {}, bytes(value)));
  return [
    h("h3", {}, "Memory plan"), bar,
    h("ul", {class: "plan-key"}, ...shown.map(([name, label]) => key(name, label, planned.get(name))),
      whole > sum && key("free", "Free", whole - sum)),
    list([
      ["Budget", bytes(budget)], ["Planned", bytes(sum)],
      ["In use by the process", bytes(total(metrics, "process_resident_memory_bytes"))],
      [
        "Experts in memory",
        resident === null ? null :
            all > 0       ? `${count(resident)} of ${count(all)} (${percent(resident / all, 0)})` :
                            count(resident)
      ],
      ["Room for experts", count(total(metrics, "expert_slots"))]
    ])
  ];
}

function drawNow({metrics: {at, metrics}, before}) {
  const speed = (name) => { // of a counter, a second, since the last look
    const [a, b] = [before && total(before.metrics, name), total(metrics, name)];
    return a === null || b === null || b < a ? null : (b - a) / ((at - before.at) / 1000);
  };
  const read = speed("expert_read_bytes_total"), hits = speed("expert_hits_total"),
        misses = speed("expert_misses_total");
  const tile = (title, value) => h("div", {class: "tile"}, h("dt", {}, title), h("dd", {}, value));
  return [
    h("h3", {}, "Now"),
    h("dl", {class: "tiles"}, tile("Running", count(total(metrics, "requests_running"))),
      tile("Waiting", count(total(metrics, "requests_waiting"))),
      tile("Tokens/s", rate(speed("generated_tokens_total"))), tile("Disk", read === null ? "–" : `${bytes(read)}/s`),
      tile("Hit rate", hits + misses > 0 ? percent(hits / (hits + misses)) : "–"),
      tile("Context", count(total(metrics, "kv_positions"))))
  ];
}

function drawTimes(metrics) {
  const rows = [
    ["time_to_first_token_seconds", "First token"], ["inter_token_seconds", "Between tokens"],
    ["queue_seconds", "In the queue"], ["request_seconds", "Whole request"]
  ];
  const row = ([name, label]) => {
    const [middle, tail] = [0.5, 0.99].map((q) => quantile(metrics, name, q));
    return middle === null ? null :
                             h("tr", {}, h("th", {scope: "row"}, label), h("td", {}, seconds(middle)),
                               h("td", {}, seconds(tail)), h("td", {}, count(total(metrics, `${name}_count`))));
  };
  const body = rows.map(row).filter(Boolean);
  if (!body.length) return [];
  return [
    h("h3", {}, "Latency"),
    h("table", {},
      h("thead", {},
        h("tr", {}, ...["", "P50", "P99", "Count"].map((text) => (text ? h("th", {scope: "col"}, text) : h("td"))))),
      h("tbody", {}, ...body))
  ];
}

function drawCounts(metrics) {
  const hits = total(metrics, "expert_hits_total"), misses = total(metrics, "expert_misses_total");
  const failed = (metrics.get("http_requests_total") ?? [])
                     .filter(({labels}) => /^[45]/.test(labels.status ?? ""))
                     .reduce((sum, {value}) => sum + value, 0);
  return [
    h("h3", {}, "Since the start"), list([
      ["Prompt tokens", count(total(metrics, "prompt_tokens_total"))],
      ["Prompt tokens known already", count(total(metrics, "prompt_tokens_cached_total"))],
      ["Generated tokens", count(total(metrics, "generated_tokens_total"))],
      ["Expert hit rate", hits + misses > 0 ? percent(hits / (hits + misses), 2) : null],
      ["Read from disk", bytes(total(metrics, "expert_read_bytes_total"))],
      ["Waited for the disk", seconds(total(metrics, "expert_wait_seconds_total"))],
      ["Requests refused or failed", metrics.has("http_requests_total") ? count(failed) : null],
      ["Disk errors", count(total(metrics, "expert_read_errors_total"))]
    ]),
    ...drawCauses(metrics)
  ];
}

/** What the time of the engine's steps went to. */
function drawCauses(metrics) {
  const causes = (metrics.get("step_cause_seconds_total") ?? [])
                     .filter(({value}) => value > 0)
                     .sort((a, b) => b.value - a.value),
        sum = causes.reduce((all, {value}) => all + value, 0);
  return sum > 0 ?
      [
        h("h3", {}, "Where the time of steps goes"),
        list(causes.map(
            ({labels,
              value}) => [String(labels.cause).replaceAll("_", " "), `${percent(value / sum)} · ${seconds(value)}`]))
      ] :
      [];
}

function drawAbout(props) {
  if (!props) return [];
  const model = props.model ?? {}, rows = Array.isArray(props.settings) ? props.settings : [];
  return [
    h("h3", {}, "Model"), list([
      ["Name", props.model_alias], ["Family", model.family],
      [
        "Layers",
        model.n_layers && `${model.n_layers}${model.n_moe_layers ? `, ${model.n_moe_layers} with experts` : ""}`
      ],
      ["Experts", model.n_experts && `${model.n_experts} per layer, ${model.top_k} per token`],
      ["Context", model.context && `${count(model.context)} tokens`], ["Instructions", model.isa],
      ["Threads", model.threads && count(model.threads)], ["Version", props.build_info]
    ]),
    ...(rows.length ? [h("details", {}, h("summary", {}, "Settings of the server"),
                         h("table", {class: "settings"},
                           h("thead", {},
                             h("tr", {}, ...["Setting", "Value", "From"].map((text) => h("th", {scope: "col"}, text)))),
                           h("tbody", {},
                             ...rows.map(
                                 ({key, value, from}) =>
                                     h("tr", {}, h("th", {scope: "row"}, String(key)), h("td", {}, String(value)),
                                       h("td", {}, String(from ?? "")))))))] :
                      [])
  ];
}
