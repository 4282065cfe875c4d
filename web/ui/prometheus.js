// Prometheus text to numbers, and quantiles of its histograms.

const sample = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const number = (text) => (text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text));

/** name -> [{labels, value}], names without `colibri_`. */
export function parseMetrics(text) {
  const metrics = new Map();
  for (const line of text.split("\n")) {
    const match = line[0] === "#" ? null : sample.exec(line);
    if (!match) continue;
    const name = match[1].replace(/^colibri_/, "");
    const labels = Object.fromEntries(Array.from(
        (match[2] ?? "").matchAll(label),
        ([, key, value]) => [key, value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c))]));
    if (!metrics.has(name)) metrics.set(name, []);
    metrics.get(name).push({labels, value: number(match[3])});
  }
  return metrics;
}

/** The sum over all label values, or null. */
export function total(metrics, name) {
  return metrics.has(name) ? metrics.get(name).reduce((sum, {value}) => sum + value, 0) : null;
}

/**
 * The value below which `q` of the observations lie, interpolated within its bucket as Prometheus does; null: none
 * yet.
 */
export function quantile(metrics, name, q) {
  const buckets = new Map(); // upper bound -> observations up to it, over all labels
  for (const {labels, value} of metrics.get(`${name}_bucket`) ?? [])
    buckets.set(number(labels.le), (buckets.get(number(labels.le)) ?? 0) + value);
  const sorted = [...buckets].sort(([a], [b]) => a - b), all = sorted.at(-1)?.[1] ?? 0;
  if (all === 0) return null;
  let below = 0, lower = 0;
  for (const [bound, upTo] of sorted) {
    if (upTo >= q * all)
      return bound === Infinity ? lower :
                                  lower + (bound - lower) * (upTo > below ? (q * all - below) / (upTo - below) : 1);
    below = upTo;
    lower = bound;
  }
  return lower;
}
