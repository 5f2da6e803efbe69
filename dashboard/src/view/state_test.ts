import { deepStrictEqual, strictEqual } from "node:assert";
import { readState, type ViewState, writeState } from "./state.ts";

const DEFAULTS = {
  search: "",
  run: null as string | null,
  page: 1,
  log: false,
  follow: true,
  status: [] as string[],
  columns: ["name", "status"],
};

const read = (query: string) => readState(new URLSearchParams(query), DEFAULTS);
const write = (query: string, changes: ViewState) =>
  writeState(new URLSearchParams(query), DEFAULTS, changes).toString();

Deno.test("an address without a query is the default view", () => {
  deepStrictEqual(read(""), DEFAULTS);
  deepStrictEqual(read("unknown=1"), DEFAULTS);
});

Deno.test("what an address says wrongly is the default", () => {
  for (const page of ["", " ", "x", "NaN", "Infinity", "1e999"]) strictEqual(read(`page=${page}`).page, 1);
  strictEqual(read("page=-3").page, -3);
  strictEqual(read("log=yes").log, false);
});

Deno.test("every view is read from its address as it was written there", () => {
  const views: ViewState[] = [
    { ...DEFAULTS },
    { ...DEFAULTS, search: "a & b=c #?%+ü", run: "x", page: 7, log: true, follow: false },
    { ...DEFAULTS, status: ["failed", "success"], columns: ["name"] },
    { ...DEFAULTS, status: ["a,b", "a b"] },
    // No column at all is another view than the usual ones.
    { ...DEFAULTS, columns: [] },
  ];
  for (const view of views) deepStrictEqual(read(write("", view)), view);
});

Deno.test("defaults and what is cleared are not in the address, and what is not ours stays there", () => {
  strictEqual(write("page=3&search=x&status=a&status=b&other=1", { ...DEFAULTS }), "other=1");
  strictEqual(write("run=x", { run: null }), "");
  strictEqual(write("a=1", { page: 2 }), "a=1&page=2");
});

Deno.test("two changes in one tick are both kept", () => {
  const once = write("status=failed", { page: 2 });
  strictEqual(write(once, { search: "x" }), "status=failed&page=2&search=x");
});
