/** SQL text and its parameters, put together piece by piece. */

/** A piece of SQL; its parameters are text that Postgres converts to the type it needs at that place. */
export class Sql {
  constructor(readonly texts: readonly string[], readonly parameters: readonly (string | null)[]) {}

  /** The statement with `$1`, `$2`, … and what they stand for. */
  render(): [text: string, parameters: (string | null)[]] {
    let text = this.texts[0];
    for (let i = 1; i < this.texts.length; i++) text += `$${i}${this.texts[i]}`;
    return [text, [...this.parameters]];
  }
}

/** Combine pieces: sql`select ${identifier(name)} from …`; anything else than a piece is a type error. */
export function sql(strings: TemplateStringsArray, ...pieces: Sql[]): Sql {
  return concatenate(strings.flatMap((text, i) => i < pieces.length ? [raw(text), pieces[i]] : [raw(text)]));
}

export const empty = new Sql([""], []);

/** Text that is SQL already: never something a caller sent. */
export function raw(text: string): Sql {
  return new Sql([text], []);
}

/** A value, of the type that Postgres infers. */
export function parameter(value: string | null): Sql {
  return new Sql(["", ""], [value]);
}

/** A name, quoted. */
export function identifier(name: string): Sql {
  return raw(quoted(name));
}

export function qualified(schema: string, name: string): Sql {
  return raw(`${quoted(schema)}.${quoted(name)}`);
}

export function column(table: string, name: string): Sql {
  return raw(`${quoted(table)}.${name === "*" ? "*" : quoted(name)}`);
}

/** A string constant. */
export function literal(text: string): Sql {
  const escaped = withoutNul(text).replaceAll("'", "''");
  return raw(escaped.includes("\\") ? `E'${escaped.replaceAll("\\", "\\\\")}'` : `'${escaped}'`);
}

export function join(pieces: Sql[], separator: string): Sql {
  return concatenate(pieces.flatMap((piece, i) => i === 0 ? [piece] : [raw(separator), piece]));
}

/** An array literal whose elements are taken as they are: `{"a","b,c"}`. */
export function arrayLiteral(elements: string[]): string {
  return `{${elements.map((element) => `"${element.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
}

function concatenate(pieces: Sql[]): Sql {
  const texts = [""];
  const parameters: (string | null)[] = [];
  for (const piece of pieces) {
    texts[texts.length - 1] += piece.texts[0];
    for (let i = 1; i < piece.texts.length; i++) texts.push(piece.texts[i]);
    parameters.push(...piece.parameters);
  }
  return new Sql(texts, parameters);
}

function quoted(name: string): string {
  return `"${withoutNul(name).replaceAll('"', '""')}"`;
}

/** A NUL would end the statement early, and no name or text in Postgres holds one. */
function withoutNul(text: string): string {
  return text.replaceAll("\0", "");
}
