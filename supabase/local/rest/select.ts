/** The `select` parameter: columns, casts, JSON paths, aggregates, embedded and spread relations. */
import { type Field, Scanner } from "./scanner.ts";

export interface SelectField extends Field {
  kind: "field";
  alias?: string;
  cast?: string;
  aggregate?: string;
  aggregateCast?: string;
}

export interface SelectRelation {
  kind: "relation";
  name: string;
  alias?: string;
  hint?: string;
  join?: "inner" | "left";
  isSpread: boolean;
  items: SelectItem[];
}

export type SelectItem = SelectField | SelectRelation;

/** How deep relations may be embedded in one another, and how many of them a request may name. */
export const MAX_EMBED_DEPTH = 8;
export const MAX_EMBEDS = 50;

class SelectReader extends Scanner {
  #embeds = 0;

  items(depth: number): SelectItem[] {
    const items: SelectItem[] = [];
    this.spaces();
    if (this.atEnd || this.startsWith(")")) return items;
    do {
      this.spaces();
      items.push(this.#item(depth));
      this.spaces();
    } while (this.take(","));
    return items;
  }

  #item(depth: number): SelectItem {
    if (this.take("...")) return this.#relation(this.name(), undefined, true, depth);
    if (this.match(/\*(?=[ \t]*(?:[,)]|$))/y)) return { kind: "field", name: "*", path: [] };
    const alias = this.attempt(() => {
      const name = this.maybeName();
      return name !== null && !this.startsWith("::") && this.take(":") ? name : null;
    }) ?? undefined;
    if (this.match(/[ \t]*count\(\)/y)) {
      return this.#ended({ kind: "field", name: "*", path: [], alias, aggregate: "count", aggregateCast: this.cast() });
    }
    this.spaces();
    const name = this.name();
    this.spaces();
    if (this.startsWith("(") || this.startsWith("!")) return this.#relation(name, alias, false, depth);
    return this.#field(name, alias);
  }

  #field(name: string, alias: string | undefined): SelectField {
    const path = this.jsonPath();
    const cast = this.cast();
    const aggregate = this.match(/\.(sum|avg|count|max|min)\(\)/y)?.[1];
    const aggregateCast = aggregate ? this.cast() : undefined;
    return this.#ended({ kind: "field", name, path, alias, cast, aggregate, aggregateCast });
  }

  #ended(field: SelectField): SelectField {
    this.spaces();
    if (!this.atEnd && !/[,)]/.test(this.text[this.at])) this.fail('"->", "::", ".", ")", "," or end of input');
    return field;
  }

  #relation(name: string, alias: string | undefined, isSpread: boolean, depth: number): SelectRelation {
    if (depth >= MAX_EMBED_DEPTH) this.fail(`at most ${MAX_EMBED_DEPTH} levels of embedded relations`);
    if (++this.#embeds > MAX_EMBEDS) this.fail(`at most ${MAX_EMBEDS} embedded relations`);
    const relation: SelectRelation = { kind: "relation", name, alias, isSpread, items: [] };
    while (this.take("!")) {
      const word = this.name();
      if (word === "inner" || word === "left") relation.join = word;
      else relation.hint = word;
    }
    this.expect("(");
    relation.items = this.items(depth + 1);
    this.expect(")");
    return relation;
  }
}

export function readSelect(text: string): SelectItem[] {
  const reader = new SelectReader(text, "select parameter");
  const items = reader.items(0);
  // One parenthesis too many, and what follows it, is ignored, as PostgREST does.
  if (!reader.atEnd && !reader.startsWith(")")) reader.fail('")", "," or end of input');
  return items;
}
