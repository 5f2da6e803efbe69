import { deepStrictEqual, ok, strictEqual } from "node:assert";
import { appended, bytesOf, linesOf, type LogWindow, NOTHING, pageOf, prepended } from "./log_window.ts";

const LOG = Array.from({ length: 400 }, (_, n) => `step ${n} — reward ${"é".repeat(n % 7)} 🎉\n`).join("");
const BYTES = new TextEncoder().encode(LOG);

/** The page of the log from a place on, which must be between characters. */
function page(from: number, to: number): LogWindow {
  const text = new TextDecoder().decode(BYTES.slice(from, to));
  return pageOf(text, Math.min(to, BYTES.length));
}

/** Places where a character begins. */
const PLACES = [...BYTES.keys()].filter((place) => (BYTES[place]! & 0xc0) !== 0x80);
const near = (place: number) => PLACES.findLast((each) => each <= place)!;

Deno.test("a log that is read in pages, some of them twice, is the log", () => {
  let window = NOTHING;
  for (let from = 0; from < BYTES.length; from += 500) {
    window = appended(window, page(near(from), near(from + 700)));
    window = appended(window, page(near(from), near(from + 300)));
  }
  window = appended(window, page(near(BYTES.length - 10), BYTES.length));
  deepStrictEqual(window, { start: 0, end: BYTES.length, text: LOG });
});

Deno.test("a log that is read backwards from its end is the log", () => {
  let window = page(near(BYTES.length - 400), BYTES.length);
  while (window.start > 0) {
    window = prepended(window, page(near(Math.max(0, window.start - 300)), near(window.start + 90)));
  }
  deepStrictEqual(window, { start: 0, end: BYTES.length, text: LOG });
});

Deno.test("a window that is full loses what is at its other end, and stays a part of the log", () => {
  const holds = ({ start, end, text }: LogWindow) =>
    strictEqual(text, new TextDecoder().decode(BYTES.slice(start, end)));
  let window = NOTHING;
  for (let from = 0; from < BYTES.length; from += 500) {
    window = appended(window, page(near(from), near(from + 500)), 2_000);
    holds(window);
    ok(window.text.length <= 2_000);
  }
  strictEqual(window.end, near(BYTES.length));
  ok(window.start > 0);
  for (let turn = 0; turn < 5; turn++) {
    window = prepended(window, page(near(Math.max(0, window.start - 800)), window.start), 2_000);
    holds(window);
    ok(window.text.length <= 2_000);
  }
  ok(window.end < BYTES.length);
});

Deno.test("a page after a gap begins the window anew, and one before a gap is left out", () => {
  const [first, later] = [page(0, near(100)), page(near(900), near(1000))];
  deepStrictEqual(appended(first, later), later);
  deepStrictEqual(prepended(later, first), later);
});

Deno.test("an empty page changes nothing", () => {
  const window = page(0, near(100));
  deepStrictEqual(appended(window, pageOf("", window.end)), window);
  deepStrictEqual(prepended(window, pageOf("", 0)), window);
});

Deno.test("progress bars are shown as they are now, and endless lines are cut", () => {
  deepStrictEqual(linesOf("a\n 10%\r 50%\r100%\nend\r\n"), ["a", "100%", "end"]);
  deepStrictEqual(linesOf(""), []);
  deepStrictEqual(linesOf("\n\nno end"), ["", "", "no end"]);
  ok(linesOf("x".repeat(1_000_000))[0]!.length < 5_000);
});

Deno.test("colours, titles and moves of a terminal are not shown, and other control characters are kept", () => {
  const text =
    "\u001b[1;38;5;42mloss\u001b[0m=1\u001b[K\n\u001b]0;title\u0007\u001b[2J\u001b[?25lhere\n[32m is no colour \u0008";
  deepStrictEqual(linesOf(text), ["loss=1", "here", "[32m is no colour \u0008"]);
});

Deno.test("places are in bytes, not in characters", () => {
  strictEqual(bytesOf("é🎉"), 6);
  deepStrictEqual(pageOf("é", 10), { start: 8, end: 10, text: "é" });
});

Deno.test("a line without end is cut between characters", () => {
  const bytes = (n: number) => 4 * n;
  const party = (n: number) => "🎉".repeat(n);
  const window = appended(pageOf(party(10), bytes(10)), pageOf(party(10), bytes(20)), 31);
  deepStrictEqual(window, { start: bytes(5), end: bytes(20), text: party(15) });
  deepStrictEqual(prepended(pageOf(party(10), bytes(20)), pageOf(party(10), bytes(10)), 31), {
    start: 0,
    end: bytes(15),
    text: party(15),
  });
});
