/**
 * A part of a log that is too long to hold, by places in bytes.
 *
 * It grows at both ends; where it grows too large, it loses what is at the other end.
 */
export interface LogWindow {
  /** Where the text begins and ends in the log. */
  start: number;
  end: number;
  text: string;
}

export const NOTHING: LogWindow = { start: 0, end: 0, text: "" };
export const MOST_CHARS = 1_500_000;
const MOST_IN_A_LINE = 4_000;

const encoder = new TextEncoder();

export function bytesOf(text: string): number {
  return encoder.encode(text).length;
}

/** A page as the database answers it: it says where the page ends, and so where it begins. */
export function pageOf(text: string, next: number): LogWindow {
  return { start: next - bytesOf(text), end: next, text };
}

/** The rest of a page after a place in the log; the place is always between characters. */
function after({ start, end, text }: LogWindow, place: number): LogWindow {
  if (place <= start) return { start, end, text };
  const rest = new TextDecoder().decode(encoder.encode(text).slice(place - start));
  return { start: Math.min(place, end), end, text: rest };
}

function before({ start, text }: LogWindow, place: number): LogWindow {
  const kept = encoder.encode(text).slice(0, Math.max(0, place - start));
  return { start, end: start + kept.length, text: new TextDecoder().decode(kept) };
}

/** The window with a page after it; what is there already is not there twice. A gap begins it anew. */
export function appended(window: LogWindow, page: LogWindow, most = MOST_CHARS): LogWindow {
  if (window.text === "" || page.start > window.end) return page;
  const fresh = after(page, window.end);
  if (fresh.text === "") return window;
  const text = window.text + fresh.text;
  if (text.length <= most) return { start: window.start, end: fresh.end, text };
  // From the beginning of a line, where there is one near.
  const cut = lineAfter(text, text.length - most);
  return { start: window.start + bytesOf(text.slice(0, cut)), end: fresh.end, text: text.slice(cut) };
}

/** The window with a page before it. */
export function prepended(window: LogWindow, page: LogWindow, most = MOST_CHARS): LogWindow {
  const earlier = before(page, window.start);
  if (earlier.text === "" || earlier.end !== window.start) return window;
  const text = earlier.text + window.text;
  if (text.length <= most) return { start: earlier.start, end: window.end, text };
  // What was prepended may be one endless line.
  const cut = text.lastIndexOf("\n", most - 1) + 1 || between(text, most - 1);
  const kept = text.slice(0, cut);
  return { start: earlier.start, end: earlier.start + bytesOf(kept), text: kept };
}

/** A place that is not within a character of two units. */
function between(text: string, place: number): number {
  const unit = text.charCodeAt(place);
  return unit >= 0xdc00 && unit <= 0xdfff ? place + 1 : place;
}

function lineAfter(text: string, from: number): number {
  const line = text.indexOf("\n", from);
  return line >= 0 && line - from < MOST_IN_A_LINE ? line + 1 : between(text, from);
}

/** What tells a terminal of colours, places and titles, and shows nothing itself. */
// deno-lint-ignore no-control-regex
const TERMINAL = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b\n]*(?:\u0007|\u001b\\)|[@-Z\\^_=>78]|[()][0-9A-Z])/g;

/** The lines as a terminal would show them: a carriage return begins a line again, as progress bars do. */
export function terminalLines(text: string): string[] {
  if (text === "") return [];
  const lines = text.replace(TERMINAL, "").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line) => line.includes("\r") ? line.split("\r").filter((part) => part !== "").at(-1) ?? "" : line);
}

/** The lines as a terminal would show them, of the longest only the beginning. */
export function linesOf(text: string): string[] {
  return terminalLines(text).map((line) => line.length > MOST_IN_A_LINE ? `${line.slice(0, MOST_IN_A_LINE)}…` : line);
}
