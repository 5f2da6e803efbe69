import { deepStrictEqual, strictEqual } from "node:assert";
import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { FakeClock } from "@/testing/clock.ts";
import { Refresher, type Subject } from "./refresher.ts";

const SECOND_LOOK_MS = 1_500;

/** Queries that are looked at, each by its name; what they read is counted. */
class Page {
  readonly client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity, retry: false } } });
  readonly refresher = new Refresher(this.client);
  readonly reads: Record<string, number> = {};
  readonly #leave: (() => void)[] = [];

  /** Look at something; reading takes as long as `read` does. */
  show(name: string, subject: Subject | undefined, read: () => Promise<void> = () => Promise.resolve()): () => void {
    const observer = new QueryObserver(this.client, {
      queryKey: [name],
      queryFn: async () => {
        this.reads[name] = (this.reads[name] ?? 0) + 1;
        await read();
        return this.reads[name];
      },
      meta: { subject },
    });
    const leave = observer.subscribe(() => {});
    this.#leave.push(leave);
    return leave;
  }

  [Symbol.dispose](): void {
    this.#leave.forEach((leave) => leave());
    this.refresher.rest();
    this.client.clear();
  }
}

/** Long after everything was read for the first time. */
async function shown(clock: FakeClock): Promise<void> {
  await clock.pass(60_000);
}

Deno.test("a change is read by what shows its run or everything, and by nothing else", async () => {
  using clock = new FakeClock();
  using page = new Page();
  page.show("one", "run 1");
  page.show("other", "run 2");
  page.show("without a run", null);
  page.show("all", "*");
  page.show("not live", undefined);
  await shown(clock);

  page.refresher.changed("run 1");
  await clock.pass(100);
  deepStrictEqual(page.reads, { one: 2, other: 1, "without a run": 1, all: 2, "not live": 1 });

  page.refresher.changed(null);
  await clock.pass(10_000);
  deepStrictEqual([page.reads.other, page.reads["without a run"]], [1, 3]);
});

Deno.test("two changes in one tick are one reading, and one more when the second after them is over", async () => {
  using clock = new FakeClock();
  using page = new Page();
  page.show("one", "run 1");
  await shown(clock);

  page.refresher.changed("run 1");
  page.refresher.changed("run 1");
  page.refresher.everything();
  await clock.pass(SECOND_LOOK_MS - 100);
  strictEqual(page.reads.one, 2);
  await clock.pass(60_000);
  strictEqual(page.reads.one, 3);
});

Deno.test("a change that the server follows up is read once each time that it is told", async () => {
  using clock = new FakeClock();
  using page = new Page();
  page.show("one", "run 1");
  await shown(clock);

  page.refresher.changed("run 1", { isFollowedUp: true });
  await clock.pass(20_000);
  strictEqual(page.reads.one, 2);
  page.refresher.changed("run 1", { isFollowedUp: true });
  await clock.pass(20_000);
  strictEqual(page.reads.one, 3);
});

Deno.test("what was read a moment ago is not read because a signal may have been lost", async () => {
  using clock = new FakeClock();
  using page = new Page();
  page.show("one", "run 1");
  page.show("other", "run 2");
  await shown(clock);
  page.refresher.changed("run 1", { isFollowedUp: true });
  await clock.pass(20_000);

  page.refresher.anyway();
  await clock.pass(10_000);
  deepStrictEqual(page.reads, { one: 2, other: 2 });
  await clock.pass(5_000);
  page.refresher.anyway();
  await clock.pass(10_000);
  deepStrictEqual(page.reads, { one: 3, other: 2 });
});

Deno.test("a slow query is read again less often, however often its run changes", async () => {
  using clock = new FakeClock();
  using page = new Page();
  const slow = () => new Promise<void>((resolve) => setTimeout(resolve, 1_000));
  page.show("slow", "run 1", slow);
  await shown(clock);
  page.refresher.timed(JSON.stringify(["slow"]), 1_000);

  for (let tick = 0; tick < 100; tick++) {
    page.refresher.changed("run 1");
    await clock.pass(200);
  }
  // 20 seconds: each reading takes one and is followed by a rest of four.
  strictEqual((page.reads.slow ?? 0) <= 6, true, `${page.reads.slow} readings`);
  strictEqual((page.reads.slow ?? 0) >= 4, true, `${page.reads.slow} readings`);
});

Deno.test("a change while a query is read is read after it, and cuts nothing short", async () => {
  using clock = new FakeClock();
  using page = new Page();
  let finished = 0;
  page.show("one", "run 1", async () => {
    await new Promise<void>((resolve) => setTimeout(resolve, 2_000));
    finished++;
  });
  await clock.pass(1_000);
  page.refresher.changed("run 1");
  await clock.pass(30_000);
  strictEqual(page.reads.one, finished);
  strictEqual(finished >= 2, true);
});

Deno.test("nothing is read for nobody", async () => {
  using clock = new FakeClock();
  using page = new Page();
  const leave = page.show("one", "run 1");
  await shown(clock);

  page.refresher.changed("run 1");
  page.refresher.rest();
  await clock.pass(60_000);
  strictEqual(page.reads.one, 1);

  page.refresher.changed("run 1");
  leave();
  await clock.pass(60_000);
  strictEqual(page.reads.one, 1);
});

Deno.test("no query at all is no trouble", () => {
  using page = new Page();
  page.refresher.everything();
  page.refresher.changed(null);
  page.refresher.rest();
});
