/** How often something may fail: guessing a password gets slow, while whoever knows it notices nothing. */
import { AuthError } from "./auth_api.ts";

interface Limit {
  /** So many failures in a row, */
  burst: number;
  /** and one more after each of these. */
  seconds: number;
}

const LIMITS: Record<string, Limit> = {
  account: { burst: 10, seconds: 30 },
  address: { burst: 30, seconds: 10 },
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

export const signInThrottle = new Throttle();
