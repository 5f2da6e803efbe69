import { deepStrictEqual, strictEqual } from "node:assert";
import { clock, filmOf, secondsOf, turnAt } from "./film.ts";

Deno.test("the turn of a time is the last that has begun", () => {
  const film = filmOf({ step_numbers: [0, 1, 2], seconds: [0.5, 2, 4.25] });
  deepStrictEqual([0, 0.5, 1.99, 2, 4.2, 4.25, 1e6].map((time) => turnAt(film, time)), [null, 0, 1, 1, 1, 2, 2]);
  deepStrictEqual([0, 1, 2, 3].map((step) => secondsOf(film, step)), [0.5, 2, 4.25, null]);
});

Deno.test("turns that begin together or out of order do not confuse the search", () => {
  const film = filmOf({ step_numbers: [0, 1, 2, 3], seconds: [3, 1, 1, 2] });
  deepStrictEqual([1, 2, 3].map((time) => turnAt(film, time)), [2, 3, 0]);
  strictEqual(secondsOf(film, 1), 1);
});

Deno.test("a video whose turns say nothing shows none", () => {
  const film = filmOf({ step_numbers: [], seconds: [] });
  strictEqual(turnAt(film, 3), null);
  strictEqual(secondsOf(film, 0), null);
});

Deno.test("times are told as players tell them", () => {
  deepStrictEqual([0, 5.9, 65, 3723].map(clock), ["0:00", "0:05", "1:05", "1:02:03"]);
});
