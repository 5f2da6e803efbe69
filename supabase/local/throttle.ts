/** How often something may fail: guessing a password gets slow, while whoever knows it notices nothing. */
import { AuthError } from "./auth_api.ts";

interface Limit {
  /** So many failures in a row, */
  burst: number;
  /** and one more after each of these. */
  seconds: number;
}

const LIMITS: Record<string, Limit> = {
  /** Of one account from one address, */
  guess: { burst: 10, seconds: 30 },
  /** of all accounts from one address, */
  address: { burst: 30, seconds: 10 },
  /** and of one account from all addresses: one that guesses as often as it may does not use this up. */
  account: { burst: 100, seconds: 30 },
};
/** Comparing one takes all of a core for a while: what waits longer than this line is turned away. */
const MAX_WAITING = 20;
const MAX_REMEMBERED = 10_000;

const tooMany = (seconds: number) =>
  new AuthError(429, "over_request_rate_limit", "Request rate limit reached", {}, {
    "Retry-After": String(Math.max(1, Math.ceil(seconds))),
  });

export class Throttle {
  /** For each subject, when its last failure will be forgiven. */
  readonly #forgivenAt = new Map<string, number>();
  #work: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(readonly limits: Record<string, Limit> = LIMITS, readonly now: () => number = () => Date.now() / 1000) {}

  /** Try something, one at a time, unless a subject ("kind name") has failed too often; false counts as a failure. */
  async attempt(subjects: string[], run: () => Promise<boolean>): Promise<boolean> {
    if (this.#waiting >= MAX_WAITING) throw tooMany(1);
    this.#waiting++;
    const turn = this.#work.then(async () => {
      const wait = this.wait(subjects);
      if (wait > 0) throw tooMany(wait);
      const isRight = await run();
      if (!isRight) this.failed(subjects);
      return isRight;
    }).finally(() => this.#waiting--);
    this.#work = turn.catch(() => {});
    return await turn;
  }

  /** For how many seconds nothing may be tried. */
  wait(subjects: string[]): number {
    return Math.max(...subjects.map((subject) => this.#wait(subject)));
  }

  failed(subjects: string[]): void {
    for (const subject of subjects) this.#remember(subject);
  }

  #limit(subject: string): Limit {
    return this.limits[subject.slice(0, subject.indexOf(" "))];
  }

  #wait(subject: string): number {
    const { burst, seconds } = this.#limit(subject);
    return (this.#forgivenAt.get(subject) ?? 0) - this.now() - (burst - 1) * seconds;
  }

  #remember(subject: string): void {
    const now = this.now();
    this.#forgivenAt.set(subject, Math.max(now, this.#forgivenAt.get(subject) ?? 0) + this.#limit(subject).seconds);
    if (this.#forgivenAt.size <= MAX_REMEMBERED) return;
    for (const [name, forgivenAt] of this.#forgivenAt) if (forgivenAt <= now) this.#forgivenAt.delete(name);
    // All of them failed just now: the oldest is forgotten first.
    if (this.#forgivenAt.size > MAX_REMEMBERED) this.#forgivenAt.delete(this.#forgivenAt.keys().next().value!);
  }
}

/**
 * The throttle of passwords. Whoever guesses an account's must not be able to lock its owner out: where somebody signed
 * in to it before, guesses from elsewhere count for nothing.
 */
export class SignInThrottle {
  readonly #familiar = new Set<string>();

  constructor(readonly throttle = new Throttle()) {}

  async attempt(account: string, address: string, run: () => Promise<boolean>): Promise<boolean> {
    const place = `${address} ${account}`;
    const everywhere = this.#familiar.has(place) ? [] : [`account ${account}`];
    const isRight = await this.throttle.attempt([`guess ${place}`, `address ${address}`, ...everywhere], run);
    if (isRight) this.#remember(place);
    return isRight;
  }

  #remember(place: string): void {
    this.#familiar.delete(place);
    this.#familiar.add(place);
    if (this.#familiar.size > MAX_REMEMBERED) this.#familiar.delete(this.#familiar.values().next().value!);
  }
}

export const signInThrottle = new SignInThrottle();
