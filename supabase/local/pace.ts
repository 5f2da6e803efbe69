/**
 * When those may come again who come all the time.
 *
 * Each gets the next free slot: few come as often as they like, and of many each comes less often, one after the other,
 * so that a server has no more to do with many of them than with some.
 */
const CALL = "/rest/v1/rpc/load_batch";
const REST = "X-Rest-Seconds";
/** How many batches of records a second are asked for; each is larger then. */
const BATCHES_PER_SECOND = 16;
const SHORTEST_REST_MS = 500;

/** How many requests for data are being answered. */
export const requests = { underWay: 0 };

export class Slots {
  #last = -Infinity;

  constructor(readonly perSecond: number, readonly shortestMs: number) {}

  /** Take the next slot, and return when it is. */
  reserve(now: number): number {
    this.#last = Math.max(this.#last + 1000 / this.perSecond, now + this.shortestMs);
    return this.#last;
  }
}

const batches = new Slots(BATCHES_PER_SECOND, SHORTEST_REST_MS);

/** Say in the answer to a courier how long it is to collect records before it delivers more; it need not obey. */
export function announceRest(response: Response, pathname: string): Response {
  if (pathname === CALL) {
    const now = performance.now();
    response.headers.set(REST, ((batches.reserve(now) - now) / 1000).toFixed(3));
  }
  return response;
}
