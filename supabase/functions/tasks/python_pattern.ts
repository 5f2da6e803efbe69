/**
 * Whether a text is a regular expression of Python's `re`, whose syntax is not JavaScript's: workers match with it.
 *
 * It reads a pattern as Python's parser does, and keeps no more than what decides whether it compiles: what can be
 * repeated, groups, and widths, since a look-behind must have a fixed one.
 */

import { BadPattern, PatternReader } from "./pattern_reader.ts";

export { BadPattern };

interface Width {
  least: number;
  most: number;
}

/** What stands before a place: nothing, a position such as ^ or \b, something repeated, or anything else. */
type Item = "none" | "position" | "repeated" | "other";

interface Group {
  /** Null while it is open. */
  width: Width | null;
}

const MAX_REPEAT = 2 ** 32 - 1;
const MAX_NESTING = 200;
const FLAGS = "iLmsxau";
const TYPE_FLAGS = "aLu";
const IDENTIFIER = /^[\p{XID_Start}_]\p{XID_Continue}*$/u;
const NOTHING: Width = { least: 0, most: 0 };
const ONE: Width = { least: 1, most: 1 };

export function checkPattern(pattern: string): void {
  new Parser(pattern).check();
}

class Parser extends PatternReader {
  /** The first is the whole match, to which nothing refers. */
  private readonly groups: Group[] = [{ width: null }];
  private readonly names = new Map<string, number>();
  private readonly laterGroups = new Set<number>();
  private readonly flags = new Set<string>();
  /** How many groups there were when the outermost look-behind began. */
  private groupsBeforeLookbehind: number | null = null;

  check(): void {
    this.alternatives(false, 0);
    if (this.flags.has("a") && this.flags.has("u")) throw new BadPattern("ASCII and UNICODE flags are incompatible");
    if (this.next !== undefined) throw new BadPattern("unbalanced parenthesis");
    for (const group of this.laterGroups) {
      if (group >= this.groups.length) throw new BadPattern(`invalid group reference ${group}`);
    }
  }

  private alternatives(isVerbose: boolean, nesting: number): Width {
    if (nesting > MAX_NESTING) throw new BadPattern("it is nested too deeply");
    let width = this.sequence(isVerbose, nesting, nesting === 0);
    while (this.accept("|")) {
      const other = this.sequence(nesting === 0 ? this.flags.has("x") : isVerbose, nesting, false);
      width = { least: Math.min(width.least, other.least), most: Math.max(width.most, other.most) };
    }
    return width;
  }

  private sequence(isVerbose: boolean, nesting: number, isFirst: boolean): Width {
    let [before, last] = [NOTHING, NOTHING];
    let item = "none" as Item;
    const add = (width: Width, added: Item = "other") => {
      [before, last, item] = [sum(before, last), width, added];
    };
    while (this.next !== undefined && this.next !== "|" && this.next !== ")") {
      const token = this.take();
      if (isVerbose && /^[ \t\n\r\v\f]$/.test(token)) continue;
      if (isVerbose && token === "#") {
        while (this.next !== undefined && this.take() !== "\n");
      } else if (token.startsWith("\\") && token.length > 1) {
        const [width, added] = this.escape(token);
        add(width, added);
      } else if (token === "[") {
        this.characterSet();
        add(ONE);
      } else if (token === "^" || token === "$") add(NOTHING, "position");
      else if (token === "(") {
        const found = this.group(isVerbose, nesting, isFirst && item === "none");
        if (found === "flags") isVerbose = this.flags.has("x");
        else if (found !== "comment") add(found);
      } else {
        const times = this.repetition(token);
        if (times === null) add(ONE);
        else {
          if (item === "none" || item === "position") throw new BadPattern("nothing to repeat");
          if (item === "repeated") throw new BadPattern("multiple repeat");
          last = { least: last.least * times.least, most: product(last.most, times.most) };
          item = "repeated";
        }
      }
    }
    return sum(before, last);
  }

  /** How often what stands before is repeated; null if the token is a character like any other. */
  private repetition(token: string): Width | null {
    let times: Width;
    if (token === "?") times = { least: 0, most: 1 };
    else if (token === "*") times = { least: 0, most: MAX_REPEAT };
    else if (token === "+") times = { least: 1, most: MAX_REPEAT };
    else if (token !== "{" || this.next === "}") return null;
    else {
      const start = this.at;
      const least = this.takeWhile(Infinity, /^[0-9]$/);
      const most = this.accept(",") ? this.takeWhile(Infinity, /^[0-9]$/) : least;
      if (!this.accept("}")) {
        this.at = start;
        return null;
      }
      times = { least: Number(least), most: most === "" ? MAX_REPEAT : Number(most) };
      if (times.least >= MAX_REPEAT || (most !== "" && times.most >= MAX_REPEAT)) {
        throw new BadPattern("the repetition number is too large");
      }
      if (times.most < times.least) throw new BadPattern("min repeat greater than max repeat");
    }
    // Lazy or possessive.
    if (!this.accept("?")) this.accept("+");
    return times;
  }

  private escape(token: string): [Width, Item] {
    const letter = token.slice(1);
    if ("AbBZ".includes(letter)) return [NOTHING, "position"];
    if ("dDsSwWafnrtv\\".includes(letter)) return [ONE, "other"];
    if (letter === "0") this.takeWhile(2, /^[0-7]$/);
    else if (/^[1-9]$/.test(letter)) return [this.numberedReference(letter), "other"];
    else this.character(token);
    return [ONE, "other"];
  }

  private numberedReference(first: string): Width {
    let digits = first;
    if (/^[0-9]$/.test(this.next ?? "")) {
      digits += this.take();
      if (/^[0-7]{2}$/.test(digits) && /^[0-7]$/.test(this.next ?? "")) {
        octal(digits + this.take());
        return ONE;
      }
    }
    return this.reference(Number(digits), digits);
  }

  private reference(group: number, name: string): Width {
    if (group >= this.groups.length) throw new BadPattern(`invalid group reference ${name}`);
    const { width } = this.groups[group];
    if (width === null) throw new BadPattern("cannot refer to an open group");
    this.checkLookbehind(group);
    return width;
  }

  private checkLookbehind(group: number): void {
    if (this.groupsBeforeLookbehind === null) return;
    if (!this.groups[group]?.width) throw new BadPattern("cannot refer to an open group");
    if (group >= this.groupsBeforeLookbehind) {
      throw new BadPattern("cannot refer to group defined in the same lookbehind subpattern");
    }
  }

  /** The code of an escaped character that is given by its number or is itself. */
  private character(token: string): number {
    const letter = token.slice(1);
    const length = { x: 2, u: 4, U: 8 }[letter];
    if (length !== undefined) {
      const digits = this.takeWhile(length, /^[0-9a-fA-F]$/);
      if (digits.length < length) throw new BadPattern(`incomplete escape ${token}${digits}`);
      const code = parseInt(digits, 16);
      if (code > 0x10ffff) throw new BadPattern(`bad escape ${token}${digits}`);
      return code;
    }
    if (letter === "N") {
      if (!this.accept("{")) throw new BadPattern("missing {");
      this.takeUntil("}", "character name");
      return 0;
    }
    if (/^[a-zA-Z]$/.test(letter)) throw new BadPattern(`bad escape ${token}`);
    return letter.codePointAt(0)!;
  }

  private characterSet(): void {
    const unterminated = "unterminated character set";
    this.accept("^");
    for (let isEmpty = true;; isEmpty = false) {
      const token = this.take(unterminated);
      if (token === "]" && !isEmpty) return;
      const from = this.member(token);
      if (!this.accept("-")) continue;
      const end = this.take(unterminated);
      if (end === "]") return;
      const to = this.member(end);
      if (from === null || to === null || to < from) throw new BadPattern(`bad character range ${token}-${end}`);
    }
  }

  /** The code of a character in a set; null for a class of them. */
  private member(token: string): number | null {
    if (token.length === 1 || !token.startsWith("\\")) return token.codePointAt(0)!;
    const letter = token.slice(1);
    if ("dDsSwW".includes(letter)) return null;
    const place = "abfnrtv".indexOf(letter);
    if (place >= 0) return [7, 8, 12, 10, 13, 9, 11][place];
    if (/^[0-7]$/.test(letter)) return octal(letter + this.takeWhile(2, /^[0-7]$/));
    if (/^[89]$/.test(letter)) throw new BadPattern(`bad escape ${token}`);
    return this.character(token);
  }

  private group(isVerbose: boolean, nesting: number, mayHaveFlags: boolean): Width | "flags" | "comment" {
    let name: string | null = null;
    let captures = true;
    if (this.accept("?")) {
      const kind = this.take();
      if (kind === "P") {
        if (this.accept("=")) return this.named(this.takeUntil(")", "group name"));
        if (!this.accept("<")) throw new BadPattern(`unknown extension ?P${this.take()}`);
        name = identifier(this.takeUntil(">", "group name"));
      } else if (kind === "#") {
        while (this.take("missing ), unterminated comment") !== ")");
        return "comment";
      } else if (kind === "(") return this.conditional(isVerbose, nesting);
      else if ("=!<".includes(kind)) {
        return this.lookaround(kind, isVerbose, nesting);
      } else if (FLAGS.includes(kind) || kind === "-") {
        const changed = this.inlineFlags(kind);
        if (changed === null) {
          if (!mayHaveFlags) throw new BadPattern("global flags not at the start of the expression");
          return "flags";
        }
        isVerbose = (isVerbose || changed.on.has("x")) && !changed.off.has("x");
        captures = false;
      } else if (kind === ":" || kind === ">") captures = false;
      else throw new BadPattern(`unknown extension ?${kind}`);
    }
    const group: Group | null = captures ? this.open(name) : null;
    const width = this.alternatives(isVerbose, nesting + 1);
    this.close();
    if (group !== null) group.width = width;
    return width;
  }

  private open(name: string | null): Group {
    const group: Group = { width: null };
    if (name !== null) {
      if (this.names.has(name)) throw new BadPattern(`redefinition of group name ${name}`);
      this.names.set(name, this.groups.length);
    }
    this.groups.push(group);
    return group;
  }

  private close(): void {
    if (!this.accept(")")) throw new BadPattern("missing ), unterminated subpattern");
  }

  private named(name: string): Width {
    const group = this.names.get(identifier(name));
    if (group === undefined) throw new BadPattern(`unknown group name ${name}`);
    return this.reference(group, name);
  }

  private lookaround(kind: string, isVerbose: boolean, nesting: number): Width {
    if (kind !== "<") {
      this.alternatives(isVerbose, nesting + 1);
      this.close();
      return NOTHING;
    }
    const side = this.take();
    if (side !== "=" && side !== "!") throw new BadPattern(`unknown extension ?<${side}`);
    const outer = this.groupsBeforeLookbehind;
    this.groupsBeforeLookbehind ??= this.groups.length;
    const { least, most } = this.alternatives(isVerbose, nesting + 1);
    this.groupsBeforeLookbehind = outer;
    this.close();
    if (Math.min(least, MAX_REPEAT - 1) !== Math.min(most, MAX_REPEAT)) {
      throw new BadPattern("look-behind requires fixed-width pattern");
    }
    return NOTHING;
  }

  private conditional(isVerbose: boolean, nesting: number): Width {
    if (nesting >= MAX_NESTING) throw new BadPattern("it is nested too deeply");
    const name = this.takeUntil(")", "group name");
    let group = IDENTIFIER.test(name) ? this.names.get(name) : undefined;
    if (group === undefined) {
      if (IDENTIFIER.test(name)) throw new BadPattern(`unknown group name ${name}`);
      if (!/^[0-9]+$/.test(name)) throw new BadPattern(`bad character in group name ${name}`);
      group = Number(name);
      if (group === 0) throw new BadPattern("bad group number");
      this.laterGroups.add(group);
    }
    this.checkLookbehind(group);
    const yes = this.sequence(isVerbose, nesting + 1, false);
    let no = NOTHING;
    if (this.accept("|")) {
      no = this.sequence(isVerbose, nesting + 1, false);
      if (this.next === "|") throw new BadPattern("conditional backref with more than two branches");
    }
    this.close();
    return { least: Math.min(yes.least, no.least), most: Math.max(yes.most, no.most) };
  }

  /** The flags that a group turns on and off; null if they are for all of the pattern. */
  private inlineFlags(first: string): { on: Set<string>; off: Set<string> } | null {
    const [on, off] = [new Set<string>(), new Set<string>()];
    let token = first;
    while (token !== "-" && token !== ":" && token !== ")") {
      if (token === "L") throw new BadPattern("bad inline flags: cannot use 'L' flag with a str pattern");
      on.add(known(token));
      if (
        TYPE_FLAGS.includes(token) &&
        [...TYPE_FLAGS].some((flag) => flag !== token && on.has(flag))
      ) {
        throw new BadPattern("bad inline flags: flags 'a', 'u' and 'L' are incompatible");
      }
      token = this.take("missing -, : or )");
    }
    if (token === ")") {
      for (const flag of on) this.flags.add(flag);
      return null;
    }
    if (token === "-") {
      for (
        token = this.take("missing flag");
        off.size === 0 || token !== ":";
        token = this.take("missing :")
      ) {
        if (TYPE_FLAGS.includes(known(token))) {
          throw new BadPattern("bad inline flags: cannot turn off 'a', 'u' and 'L'");
        }
        off.add(token);
      }
    }
    if ([...on].some((flag) => off.has(flag))) throw new BadPattern("bad inline flags: flag turned on and off");
    return { on, off };
  }
}

function known(flag: string): string {
  if (!FLAGS.includes(flag)) throw new BadPattern(`unknown flag ${flag}`);
  return flag;
}

function identifier(name: string): string {
  if (!IDENTIFIER.test(name)) throw new BadPattern(`bad character in group name ${name}`);
  return name;
}

function octal(digits: string): number {
  const code = parseInt(digits, 8);
  if (code > 0o377) throw new BadPattern(`octal escape value \\${digits} outside of range 0-0o377`);
  return code;
}

function sum(one: Width, other: Width): Width {
  return { least: one.least + other.least, most: one.most + other.most };
}

function product(one: number, other: number): number {
  return one === 0 || other === 0 ? 0 : one * other;
}
