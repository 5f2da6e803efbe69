/**
 * When those may come again who come all the time, so that many of them leave the server time for everybody else.
 *
 * Couriers take turns: few come as often as they like, and of many, or of slow batches, each comes less often, with more.
 * Dashboards are told of changes as long as what is read takes no more than a part of the server's time.
 */
const CALL = "/rest/v1/rpc/load_batch";
const REST = "X-Rest-Seconds";
const CORES = navigator.hardwareConcurrency;
/** How many batches of records a second are asked for; each is larger then. */
const BATCHES_PER_SECOND = 8;
const SHORTEST_REST_MS = 500;
/** How many batches are under way on average, at the most. */
const BATCHES_UNDER_WAY = Math.max(0.5, CORES / 4);
/** With so many reads under way, a server is busy with reading. */
const MANY_READS = Math.max(1, Math.floor(CORES / 2));
/** For what part of the time it may be. */
const READING_PART = 0.5;
/** A read that takes longer than this is somebody's own: it keeps nobody else from being told. */
const LONG_READ_MS = 1000;
/** How much of that time is saved up or owed, at the most. */
const SAVED_MS = 500;
/** For how long a batch lets reads go first: people wait for those. */
const LONGEST_WAY_MS = 100;
const LOOK_MS = 5;

/** Slots for those who come again and again, one after the other. */
export class Slots {
  #last = -Infinity;
  #tookMs = 0;

  constructor(readonly perSecond: number, readonly shortestMs: number, readonly underWay: number) {}

  /** Note how long one of them took. */
  took(milliseconds: number): void {
    this.#tookMs += (milliseconds - this.#tookMs) / 8;
  }

  /** Take the next slot, and return when it is. */
  reserve(now: number): number {
    const apartMs = Math.max(1000 / this.perSecond, this.#tookMs / this.underWay);
    this.#last = Math.max(this.#last + apartMs, now + this.shortestMs);
    return this.#last;
  }
}

/** Keeps reading to a part of the time: more may be caused when what was caused before is done. */
export class Allowance {
  readonly #begun = new Set<{ at: number }>();
  #leftMs = SAVED_MS;
  #asOf = 0;

  /** `many` reads at once are too many to cause further ones, and for a `part` of the time that many may be under way. */
  constructor(readonly many: number, readonly part: number) {}

  /** A read begins; returns what to call when it ends. */
  begin(now: number): (now: number) => void {
    this.#count(now);
    const read = { at: now };
    this.#begun.add(read);
    return (end) => {
      this.#count(end);
      this.#begun.delete(read);
    };
  }

  /** Whether more may be caused now. */
  isLeft(now: number): boolean {
    this.#count(now);
    return this.#leftMs > 0 && this.#manyUntil() <= now;
  }

  /** Wait until not so many are under way, but not for long. */
  async quiet(longestMs: number): Promise<void> {
    const until = performance.now() + longestMs;
    while (performance.now() < Math.min(until, this.#manyUntil())) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /** Until when many are under way if none begins or ends: long ones do not count. */
  #manyUntil(): number {
    const lastOfMany = [...this.#begun].at(-this.many);
    return lastOfMany ? lastOfMany.at + LONG_READ_MS : -Infinity;
  }

  #count(now: number): void {
    const elapsed = Math.max(0, now - this.#asOf);
    const busy = Math.min(elapsed, Math.max(0, this.#manyUntil() - this.#asOf));
    this.#leftMs = Math.max(-SAVED_MS, Math.min(SAVED_MS, this.#leftMs + elapsed * this.part - busy));
    this.#asOf = Math.max(this.#asOf, now);
  }
}

const batches = new Slots(BATCHES_PER_SECOND, SHORTEST_REST_MS, BATCHES_UNDER_WAY);
export const reads = new Allowance(MANY_READS, READING_PART);

/** A request for data begins; returns what to call when it is answered. */
export function beginRequest(pathname: string): () => void {
  if (pathname === CALL) return () => {};
  const end = reads.begin(performance.now());
  return () => end(performance.now());
}

/** Do a request's work in the database; a batch of records lets reads go first, and how long it takes is noted. */
export async function paced<T>(pathname: string, work: () => Promise<T>): Promise<T> {
  if (pathname !== CALL) return await work();
  await reads.quiet(LONGEST_WAY_MS);
  const began = performance.now();
  try {
    return await work();
  } finally {
    batches.took(performance.now() - began);
  }
}

/** Say in the answer to a courier how long it is to collect records before it delivers more; it need not obey. */
export function announceRest(response: Response, pathname: string): Response {
  if (pathname === CALL) {
    const now = performance.now();
    response.headers.set(REST, ((batches.reserve(now) - now) / 1000).toFixed(3));
  }
  return response;
}
