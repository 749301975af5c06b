// Elements, numbers and times as text. Everything that a pipeline names goes onto the page as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const small = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Set the text of an element, but only if it is another one, so that a selection in it stays. */
export function say(where, text) {
  if (where.textContent !== text) where.textContent = text;
}

export function count(number) {
  return number === null || number === undefined ? "" : whole.format(number);
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "";
  return (perSecond < 10 ? small : whole).format(perSecond) + "/s";
}

export function bytes(size) {
  if (size === null || size === undefined) return "";
  let number = size, unit = "B";
  for (const larger of ["KiB", "MiB", "GiB", "TiB"]) {
    if (number < 1024) break;
    number /= 1024;
    unit = larger;
  }
  return (number < 10 && unit !== "B" ? small : whole).format(unit === "B" || number < 10 ? number : Math.round(number)) + " " + unit;
}

export function duration(seconds) {
  if (seconds < 1) return whole.format(Math.round(seconds * 1000)) + " ms";
  if (seconds < 10) return small.format(seconds) + " s";
  if (seconds < 60) return Math.round(seconds) + " s";
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = parts.findIndex(([size]) => seconds >= size);
  const [size, name] = parts[at], [lesser, lesserName] = parts[at + 1];
  const rest = Math.floor((seconds % size) / lesser);
  return `${whole.format(Math.floor(seconds / size))} ${name}` + (rest ? ` ${rest} ${lesserName}` : "");
}

/** A time as text, as fine as the distance between two ticks asks for. UTC, as everywhere. */
export function clockText(seconds, fineness) {
  if (!(Math.abs(seconds) < 8.64e12)) return "";
  const text = new Date(seconds * 1000).toISOString();
  const [day, time] = [text.slice(0, text.indexOf("T")), text.slice(text.indexOf("T") + 1)];
  if (fineness >= 86400) return day;
  return fineness >= 60 ? time.slice(0, 5) : fineness >= 1 ? time.slice(0, 8) : time.slice(0, 12);
}

export function dayText(seconds) {
  return clockText(seconds, 86400);
}
