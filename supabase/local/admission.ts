/** Who may use a database connection now: no caller, and not all without the secret key together, takes every one. */
import { clientHasGone, currentClient } from "./client.ts";

/** Of the pool's connections: what is left over is for the secret key, the gateway itself and its health. */
const MOST_TOGETHER = 12;
const MOST_FOR_ONE = 6;
const MAX_WAITING_FOR_ONE = 100;
const MAX_WAIT_MS = 10_000;

interface Caller {
  role: string;
  sub?: string;
}

interface Waiting {
  name: string;
  enter(): void;
}

export class Admission {
  readonly #inside = new Map<string, number>();
  #together = 0;
  #waiting: Waiting[] = [];

  constructor(readonly together = MOST_TOGETHER, readonly forOne = MOST_FOR_ONE, readonly waitMs = MAX_WAIT_MS) {}

  /** How many callers use a connection now. */
  get running(): number {
    return this.#together;
  }

  /** How many wait for one. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Run something that takes a connection, when it is this caller's turn. */
  async run<T>(caller: Caller, work: () => Promise<T>): Promise<T> {
    if (caller.role === "service_role") return await work();
    const name = caller.sub ?? caller.role;
    await this.#enter(name);
    try {
      return await work();
    } finally {
      this.#leave(name);
    }
  }

  #enter(name: string): Promise<void> {
    if (this.#mayEnter(name)) {
      this.#count(name, 1);
      return Promise.resolve();
    }
    if (this.#waiting.filter((one) => one.name === name).length >= MAX_WAITING_FOR_ONE) throw busy();
    return this.#wait(name, currentClient.getStore()?.gone);
  }

  /** Stand in the line until it is this caller's turn, it has taken too long, or the client has gone. */
  #wait(name: string, gone: AbortSignal | undefined): Promise<void> {
    if (gone?.aborted) throw clientHasGone();
    return new Promise((resolve, reject) => {
      const ended = () => {
        clearTimeout(timer);
        gone?.removeEventListener("abort", go);
        this.#waiting = this.#waiting.filter((one) => one !== waiting);
      };
      const giveUp = (error: Error) => {
        ended();
        reject(error);
      };
      const go = () => giveUp(clientHasGone());
      const enter = () => {
        ended();
        this.#count(name, 1);
        resolve();
      };
      const timer = setTimeout(() => giveUp(busy()), this.waitMs);
      gone?.addEventListener("abort", go);
      const waiting = { name, enter };
      this.#waiting.push(waiting);
    });
  }

  #leave(name: string): void {
    this.#count(name, -1);
    // The first in the line who may: somebody who has all of theirs holds nobody else up.
    const next = this.#waiting.find((one) => this.#mayEnter(one.name));
    next?.enter();
  }

  #mayEnter(name: string): boolean {
    return this.#together < this.together && (this.#inside.get(name) ?? 0) < this.forOne;
  }

  #count(name: string, change: number): void {
    this.#together += change;
    const inside = (this.#inside.get(name) ?? 0) + change;
    if (inside > 0) this.#inside.set(name, inside);
    else this.#inside.delete(name);
  }
}

/** In the words of Postgres itself, so that every API answers it with 503. */
function busy(): Error {
  const error = new Error("too many requests of this caller wait for the database; try again shortly");
  return Object.assign(error, { code: "53300" });
}

export const admission = new Admission();
