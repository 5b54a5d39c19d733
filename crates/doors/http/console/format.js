// Numbers as people read them.

const NONE = "–";

const is = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** A count or a rate in three digits or so. */
export function count(value) {
  if (!is(value)) return NONE;
  if (value >= 1e6) return `${(value / 1e6).toFixed(value >= 1e7 ? 1 : 2)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(value >= 1e5 ? 0 : 1)} k`;
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toString();
  return value < 0.05 ? "0" : value.toFixed(1);
}

export function bytes(value) {
  if (!is(value)) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** A duration in seconds, in the unit that suits it. */
export function duration(seconds) {
  if (!is(seconds)) return NONE;
  if (seconds < 0.000_95) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 0.0095) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
  return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
}

/** A long time, in its greatest unit and the next. */
export function span(seconds) {
  if (!is(seconds)) return NONE;
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  if (minutes > 0) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds)} s`;
}

export function percent(share) {
  if (!is(share)) return NONE;
  const value = share * 100;
  return `${value === 0 || value >= 99.95 || value >= 10 ? Math.round(value) : value.toFixed(1)} %`;
}

/** Bytes as the door tells them: text, or base64. */
export function shown(octets) {
  return typeof octets === "string" ? octets : `base64:${octets.base64}`;
}
