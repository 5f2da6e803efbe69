/** A clock for tests: time passes when they say so. */

interface Due {
  at: number;
  every: number | null;
  run: () => void;
}

/** Replaces the timers and the time of day until it is put away. */
export class FakeClock {
  now = Date.parse("2026-01-01T00:00:00Z");
  #timers = new Map<number, Due>();
  #lastTimer = 0;
  readonly #real = {
    setTimeout: globalThis.setTimeout,
    clearTimeout: globalThis.clearTimeout,
    setInterval: globalThis.setInterval,
    clearInterval: globalThis.clearInterval,
    now: Date.now,
  };

  constructor() {
    const set = (run: () => void, wait: number, every: number | null) => {
      this.#timers.set(++this.#lastTimer, { at: this.now + Math.max(0, wait), every, run });
      return this.#lastTimer;
    };
    const clear = (timer?: number) => void this.#timers.delete(timer ?? 0);
    Object.assign(globalThis, {
      setTimeout: (run: () => void, wait = 0) => set(run, wait, null),
      setInterval: (run: () => void, wait = 0) => set(run, wait, wait),
      clearTimeout: clear,
      clearInterval: clear,
    });
    Date.now = () => this.now;
  }

  get waiting(): number {
    return this.#timers.size;
  }

  /** Let time pass, with all that falls due in it; promises are settled in between. */
  async pass(milliseconds: number): Promise<void> {
    const end = this.now + milliseconds;
    await this.settle();
    for (;;) {
      const [first] = [...this.#timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at);
      if (!first) break;
      const [timer, due] = first;
      this.now = Math.max(this.now, due.at);
      if (due.every === null) this.#timers.delete(timer);
      else this.#timers.set(timer, { ...due, at: due.at + due.every });
      due.run();
      await this.settle();
    }
    this.now = end;
  }

  /** Let all that is not waiting for time happen. */
  settle(): Promise<void> {
    return new Promise((resolve) => this.#real.setTimeout(resolve, 0));
  }

  [Symbol.dispose](): void {
    const { now, ...timers } = this.#real;
    Object.assign(globalThis, timers);
    Date.now = now;
  }
}
