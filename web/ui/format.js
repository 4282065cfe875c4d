// Numbers for people. What is missing is a dash.

const dash = "–";
const known = (x) => typeof x === "number" && Number.isFinite(x);

export function bytes(x) {
  if (!known(x)) return dash;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(x) >= 1024 && unit < units.length - 1) {
    x /= 1024;
    ++unit;
  }
  return `${x >= 100 || unit === 0 ? Math.round(x) : x.toFixed(x >= 10 ? 1 : 2)} ${units[unit]}`;
}

export const count = (x) => (known(x) ? Math.round(x).toLocaleString("en") : dash);
export const percent = (x, digits = 1) => (known(x) ? `${(100 * x).toFixed(digits)} %` : dash);
export const rate = (x) => (known(x) ? x.toFixed(x >= 100 ? 0 : x >= 10 ? 1 : 2) : dash);

export function seconds(x, digits = x < 10 ? 2 : 1) {
  if (!known(x)) return dash;
  if (x < 0.001) return `${Math.round(x * 1e6)} µs`;
  if (x < 1) return `${(x * 1000).toFixed(x < 0.1 ? 1 : 0)} ms`;
  if (x < 60) return `${x.toFixed(digits)} s`;
  if (x < 3600) return `${Math.floor(x / 60)} min ${Math.round(x % 60)} s`;
  return `${Math.floor(x / 3600)} h ${Math.round((x % 3600) / 60)} min`;
}
