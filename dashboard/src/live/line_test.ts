import { deepStrictEqual, strictEqual } from "node:assert";
import { FakeClock } from "@/testing/clock.ts";
import { LiveLine, LONGEST_PAUSE_MS, LOOK_ANYWAY_MS } from "./line.ts";

/** A line whose other end is in the test's hands. */
class Wired {
  hidden = false;
  /** Answers at once, before the channel has been handed over. */
  refuses = false;
  readonly heard: string[] = [];
  readonly states: string[] = [];
  readonly channels: { changed: (run: string | null) => void; status: (ok: boolean) => void; isClosed: boolean }[] = [];
  readonly line = new LiveLine({
    isHidden: () => this.hidden,
    open: (changed, status) => {
      const channel = { changed, status, isClosed: false };
      this.channels.push(channel);
      if (this.refuses) status(false);
      return { close: () => void (channel.isClosed = true) };
    },
    changed: (run) => this.heard.push(`changed ${run}`),
    everything: () => this.heard.push("everything"),
    anyway: () => this.heard.push("anyway"),
    rested: () => this.heard.push("rested"),
  });

  constructor() {
    this.line.subscribe(() => this.states.push(this.line.state()));
  }

  get channel() {
    return this.channels.at(-1)!;
  }

  get open(): number {
    return this.channels.filter((channel) => !channel.isClosed).length;
  }
}

Deno.test("a line that opens catches up, and then tells of changes", () => {
  using _clock = new FakeClock();
  const wired = new Wired();
  strictEqual(wired.line.state(), "connecting");
  wired.line.open();
  wired.line.open();
  wired.channel.status(true);
  wired.channel.changed("run 1");
  wired.channel.changed(null);
  deepStrictEqual(wired.heard, ["everything", "changed run 1", "changed null"]);
  deepStrictEqual([wired.states, wired.open], [["live"], 1]);
});

Deno.test("a lost connection is told, tried again with longer and longer pauses, and caught up with", async () => {
  using clock = new FakeClock();
  const wired = new Wired();
  wired.line.open();
  wired.channel.status(true);
  const pauses: number[] = [];
  for (let failure = 0; failure < 7; failure++) {
    const [before, tries] = [clock.now, wired.channels.length];
    wired.channel.status(false);
    strictEqual(wired.line.state(), "lost");
    strictEqual(wired.open, 0);
    while (wired.channels.length === tries) await clock.pass(500);
    pauses.push(clock.now - before);
  }
  deepStrictEqual(pauses, [1_000, 2_000, 4_000, 8_000, LONGEST_PAUSE_MS, LONGEST_PAUSE_MS, LONGEST_PAUSE_MS]);
  wired.channel.status(true);
  deepStrictEqual([wired.states, wired.heard], [["live", "lost", "live"], ["everything", "everything"]]);

  // The next loss begins with a short pause again.
  wired.channel.status(false);
  const tries = wired.channels.length;
  await clock.pass(1_000);
  strictEqual(wired.channels.length, tries + 1);
});

Deno.test("a line that fails while it opens is opened again", async () => {
  using clock = new FakeClock();
  const wired = new Wired();
  wired.refuses = true;
  wired.line.open();
  deepStrictEqual([wired.line.state(), wired.open], ["lost", 0]);
  wired.refuses = false;
  await clock.pass(1_000);
  wired.channel.status(true);
  deepStrictEqual([wired.line.state(), wired.open], ["live", 1]);
});

Deno.test("what an old channel still says is not heard", () => {
  using _clock = new FakeClock();
  const wired = new Wired();
  wired.line.open();
  const old = wired.channel;
  wired.line.reopen();
  wired.channel.status(true);
  old.changed("run of somebody else");
  old.status(false);
  deepStrictEqual([wired.line.state(), wired.heard, wired.open], ["live", ["everything"], 1]);
});

Deno.test("a hidden page neither listens nor tries to", async () => {
  using clock = new FakeClock();
  const wired = new Wired();
  wired.line.open();
  wired.channel.status(true);
  wired.channel.status(false);
  wired.hidden = true;
  wired.line.rest();
  wired.line.open(); // as when the network comes back
  await clock.pass(10 * LOOK_ANYWAY_MS);
  deepStrictEqual([wired.line.state(), wired.open, wired.heard.at(-1)], ["resting", 0, "rested"]);

  wired.hidden = false;
  wired.line.open();
  strictEqual(wired.line.state(), "connecting");
  wired.channel.status(true);
  deepStrictEqual([wired.line.state(), wired.heard.at(-1)], ["live", "everything"]);
});

Deno.test("signals may get lost: now and then everything is looked at", async () => {
  using clock = new FakeClock();
  const wired = new Wired();
  wired.line.open();
  await clock.pass(3 * LOOK_ANYWAY_MS);
  deepStrictEqual(wired.heard, ["anyway", "anyway", "anyway"]);
});
