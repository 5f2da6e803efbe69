import { deepStrictEqual, strictEqual } from "node:assert";
import { piecesOf } from "./agent_text.tsx";

Deno.test("the pieces of a text are the text, whatever it is made of", () => {
  for (const unit of ["a", "a word ", "a line\n", "שלום ", "שלום", "שלום\n", "\n"]) {
    for (const chars of [0, 1, 4_999, 5_000, 5_001, 100_000, 250_001]) {
      const text = unit.repeat(Math.ceil(chars / unit.length)).slice(0, chars);
      strictEqual(piecesOf(text).join(""), text, `${JSON.stringify(unit)} to ${chars}`);
    }
  }
});

Deno.test("long right-to-left text comes in short pieces, and any other in long ones", () => {
  strictEqual(Math.max(...piecesOf("שלום ".repeat(20_000)).map((piece) => piece.length)), 5_000);
  deepStrictEqual(piecesOf("word ".repeat(20_000)).length, 1);
});
