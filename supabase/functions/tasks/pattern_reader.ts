/** Reads a regular expression of Python's token by token. */

export class BadPattern extends Error {}

export class PatternReader {
  /** Characters; a backslash has the one after it. */
  private readonly tokens: string[];
  protected at = 0;

  constructor(pattern: string) {
    this.tokens = pattern.match(/\\[\s\S]|[\s\S]/gu) ?? [];
    if (this.tokens.at(-1) === "\\") throw new BadPattern("bad escape (end of pattern)");
  }

  protected get next(): string | undefined {
    return this.tokens[this.at];
  }

  protected take(expected = "unexpected end of pattern"): string {
    const token = this.tokens[this.at++];
    if (token === undefined) throw new BadPattern(expected);
    return token;
  }

  protected accept(token: string): boolean {
    if (this.next !== token) return false;
    this.at++;
    return true;
  }

  protected takeWhile(most: number, allowed: RegExp): string {
    let taken = "";
    while (taken.length < most && this.next !== undefined && allowed.test(this.next)) taken += this.take();
    return taken;
  }

  protected takeUntil(end: string, what: string): string {
    let taken = "";
    while (true) {
      const token = this.take(`missing ${taken === "" ? what : `${end}, unterminated name`}`);
      if (token === end) break;
      taken += token;
    }
    if (taken === "") throw new BadPattern(`missing ${what}`);
    return taken;
  }
}
