/** The line over which the database says that something changed: open while someone looks, opened again when it breaks. */

export type Line = "connecting" | "live" | "lost" | "resting";

export interface Channel {
  close(): void;
}

/** What a line is connected to. */
export interface Ends {
  isHidden(): boolean;
  /**
   * Open a channel that tells of changes, each by its run, and of its own state: subscribed or not any more. To open it
   * may fail at once, which is told the same way.
   */
  open(changed: (run: string | null) => void, heard: (isSubscribed: boolean) => void): Channel;
  /** A run changed; null is what belongs to none. */
  changed(run: string | null): void;
  /** Anything may have changed, also just now. */
  everything(): void;
  /** Something may have changed unheard. */
  anyway(): void;
  /** Nobody looks any more. */
  rested(): void;
}

/** Signals can get lost on their way: now and then look anyway. */
export const LOOK_ANYWAY_MS = 60_000;
const FIRST_PAUSE_MS = 1_000;
export const LONGEST_PAUSE_MS = 15_000;

export class LiveLine {
  #state: Line = "connecting";
  /** Which channel is open, or being opened. */
  #opening: symbol | null = null;
  #channel: Channel | null = null;
  #failures = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #lookAnyway: ReturnType<typeof setInterval> | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(readonly ends: Ends) {}

  state = (): Line => this.#state;

  subscribe = (listener: () => void): () => void => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Listen if someone looks and nothing is open yet. */
  open(): void {
    if (this.#opening || this.ends.isHidden()) return;
    clearTimeout(this.#retry);
    clearInterval(this.#lookAnyway);
    this.#lookAnyway = setInterval(() => this.ends.anyway(), LOOK_ANYWAY_MS);
    if (this.#state === "resting") this.#become("connecting");
    // Only the latest channel is listened to.
    const opening = this.#opening = Symbol();
    const isCurrent = () => this.#opening === opening;
    const channel = this.ends.open(
      (run) => isCurrent() && this.ends.changed(run),
      (isSubscribed) => isCurrent() && (isSubscribed ? this.#succeeded() : this.#failed()),
    );
    // It may have failed at once.
    if (isCurrent()) this.#channel = channel;
    else channel.close();
  }

  /** Listen anew, as whoever is signed in now. */
  reopen(): void {
    this.#close();
    this.open();
  }

  /** Nobody looks: neither listen nor read. */
  rest(): void {
    this.#close();
    clearTimeout(this.#retry);
    this.#become("resting");
    this.ends.rested();
  }

  #succeeded(): void {
    this.#failures = 0;
    this.#become("live");
    // What happened while nobody listened.
    this.ends.everything();
  }

  #failed(): void {
    this.#become("lost");
    this.#close();
    clearTimeout(this.#retry);
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures++, LONGEST_PAUSE_MS);
    this.#retry = setTimeout(() => this.open(), pause);
  }

  #close(): void {
    this.#opening = null;
    clearInterval(this.#lookAnyway);
    this.#channel?.close();
    this.#channel = null;
  }

  #become(next: Line): void {
    if (this.#state === next) return;
    this.#state = next;
    this.#listeners.forEach((listener) => listener());
  }
}
