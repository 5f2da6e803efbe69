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
const BATCHES_PER_SECOND = 16;
const SHORTEST_REST_MS = 500;
/** How many batches are under way on average, at the most. */
const BATCHES_UNDER_WAY = Math.max(0.5, CORES / 4);
/** And how many reads that dashboards' being told causes. */
const READS_UNDER_WAY = Math.max(0.5, CORES / 4);
/** A read that takes longer than this is somebody's own: it keeps nobody else from being told. */
const LONG_READ_MS = 1000;
/** How much time for reading is saved up while nobody reads, and how much is owed at the most. */
const SAVED_MS = 500;
const OWED_MS = 2000;

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

/** The time that reads may take: so many under way on average, and the next ones when those before are done. */
export class Allowance {
  readonly #begun = new Set<{ at: number }>();
  #leftMs = SAVED_MS;
  #asOf = -Infinity;

  constructor(readonly underWay: number) {}

  /** A read begins; returns what to call when it ends. */
  begin(now: number): (now: number) => void {
    const read = { at: now };
    this.#begun.add(read);
    return (end) => {
      if (this.#begun.delete(read)) this.#add(end, -Math.min(end - read.at, LONG_READ_MS));
    };
  }

  /** Whether more may be caused now. */
  isLeft(now: number): boolean {
    this.#add(now, 0);
    const underWay = [...this.#begun].filter((read) => now - read.at < LONG_READ_MS).length;
    return this.#leftMs > 0 && underWay < 2 * this.underWay;
  }

  #add(now: number, milliseconds: number): void {
    const gained = Math.max(0, now - this.#asOf) * this.underWay;
    this.#asOf = now;
    this.#leftMs = Math.max(-OWED_MS, Math.min(SAVED_MS, this.#leftMs + gained) + milliseconds);
  }
}

const batches = new Slots(BATCHES_PER_SECOND, SHORTEST_REST_MS, BATCHES_UNDER_WAY);
export const reads = new Allowance(READS_UNDER_WAY);

/** A request for data begins; returns what to call when it is answered. */
export function beginRequest(pathname: string): () => void {
  const began = performance.now();
  if (pathname === CALL) return () => batches.took(performance.now() - began);
  const end = reads.begin(began);
  return () => end(performance.now());
}

/** Say in the answer to a courier how long it is to collect records before it delivers more; it need not obey. */
export function announceRest(response: Response, pathname: string): Response {
  if (pathname === CALL) {
    const now = performance.now();
    response.headers.set(REST, ((batches.reserve(now) - now) / 1000).toFixed(3));
  }
  return response;
}
