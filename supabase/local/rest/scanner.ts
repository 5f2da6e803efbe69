/** Reading PostgREST's URL grammar character by character. */
import { unreadable } from "./errors.ts";

/** `->'key'`, `->>'key'`, or `->0`. */
export interface JsonStep {
  asText: boolean;
  key: string;
  isIndex: boolean;
}

/** A column, or a place inside a JSON column. */
export interface Field {
  name: string;
  path: JsonStep[];
}

const NAME = /(?:[\p{L}\p{M}\p{N}_ $]|-(?!>))+/uy;
const JSON_KEY = /[^(\-:.,>)]+(?:-(?!>)[^(\-:.,>)]+)*/uy;
const JSON_INDEX = /-?\d+(?=->|::|[.,)]|$)/y;

export class Scanner {
  at = 0;

  /** `offset` characters stand before the text in what is counted as its columns. */
  constructor(readonly text: string, readonly what: string, readonly offset = 0) {}

  get atEnd(): boolean {
    return this.at >= this.text.length;
  }

  fail(expected: string, quote = '"'): never {
    const letter = this.text.codePointAt(this.at);
    const found = letter === undefined ? "end of input" : `${quote}${String.fromCodePoint(letter)}${quote}`;
    throw unreadable(this.what, this.text, this.at, `unexpected ${found} expecting ${expected}`, this.offset);
  }

  /** What the sticky pattern matches here, or null. */
  match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  startsWith(text: string): boolean {
    return this.text.startsWith(text, this.at);
  }

  take(text: string): boolean {
    if (!this.startsWith(text)) return false;
    this.at += text.length;
    return true;
  }

  expect(text: string): void {
    if (!this.take(text)) this.fail(`"${text}"`);
  }

  spaces(): void {
    this.match(/[ \t]*/y);
  }

  /** Read the text that the reader reads, or stand where we stood. */
  attempt<T>(read: () => T | null): T | null {
    const start = this.at;
    const result = read();
    if (result === null) this.at = start;
    return result;
  }

  /** `"a \"quoted\" text"`, or null. */
  quoted(): string | null {
    const found = this.match(/"((?:[^"\\]|\\[^])*)"/y);
    return found && found[1].replace(/\\([^])/g, "$1");
  }

  /** A name, or null. */
  maybeName(): string | null {
    return this.attempt(() => this.quoted() ?? (this.match(NAME)?.[0].trim() || null));
  }

  name(): string {
    return this.maybeName() ?? this.fail("field name (* or [a..z0..9_$])");
  }

  field(): Field {
    this.spaces();
    const field = { name: this.name(), path: this.jsonPath() };
    this.spaces();
    return field;
  }

  jsonPath(): JsonStep[] {
    const path: JsonStep[] = [];
    while (this.take("->")) {
      const asText = this.take(">");
      const index = this.match(JSON_INDEX)?.[0];
      if (index === undefined && this.match(/-(?!>)/y)) {
        this.match(/\d+/y) ? this.fail('"->", "::", ".", ","') : this.fail("digit");
      }
      const key = index ?? this.quoted() ?? this.match(JSON_KEY)?.[0].trim();
      if (!key && key !== "") this.fail('"-", digit or any non reserved character different from: .,>()');
      path.push({ asText, key, isIndex: index !== undefined });
    }
    return path;
  }

  /** `::type`, if one follows; without `$`, which begins a quoted text in SQL. */
  cast(): string | undefined {
    if (!this.take("::")) return undefined;
    return this.match(/[\p{L}\p{N}_ ]+/uy)?.[0].trim() || this.fail("a type");
  }
}
