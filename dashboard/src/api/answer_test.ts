import { strictEqual } from "node:assert";
import { beginningOf, isShortened } from "./answer.ts";

/** As Postgres writes jsonb, cut as cards are. */
function cutTo(chars: number, shortened: string): string {
  return `{"path": "rollouts/a/b", "shortened": ${JSON.stringify(shortened)}, "size_bytes": 9}`.slice(0, chars);
}

Deno.test("of an answer that is a file a card shows its beginning, wherever it is cut", () => {
  const answer = 'a "word"\\ \n \u0001 שלום '.repeat(20);
  for (let chars = 40; chars < 300; chars++) {
    const shown = beginningOf(cutTo(chars, answer));
    strictEqual(answer.startsWith(shown.slice(0, -1)), true, `${chars}: ${shown}`);
  }
});

Deno.test("any other answer is shown as it is", () => {
  for (const text of ["", "kitchen", '{"path": "a"}', '{"path": "a", "shortened": 3}', '{"path": "a\\"']) {
    strictEqual(beginningOf(text), text);
  }
});

Deno.test("only an object that says where the whole is stands for a file", () => {
  strictEqual(isShortened({ shortened: "a", size_bytes: 1, path: "b" }), true);
  for (const value of [null, "a", [], {}, { shortened: "a", size_bytes: null, path: "b" }]) {
    strictEqual(isShortened(value), false);
  }
});
