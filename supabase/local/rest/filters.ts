/** Conditions: `eq.5`, `not.in.(a,"b,c")`, `or=(a.gt.1,and(b.is.null,c.like.*x*))`. Values stay the text they came as. */
import { type Field, Scanner } from "./scanner.ts";

export type Operation =
  | { kind: "compare"; operator: string; value: string }
  | { kind: "each"; operator: string; quantifier: "any" | "all"; value: string }
  | { kind: "in"; values: string[] }
  | { kind: "is"; value: "null" | "not null" | "true" | "false" | "unknown" }
  | { kind: "distinct"; value: string }
  | { kind: "search"; parser: string; language?: string; value: string };

export interface Filter {
  kind: "filter";
  field: Field;
  isNegated: boolean;
  operation: Operation;
}

export interface Junction {
  kind: "junction";
  isNegated: boolean;
  operator: "and" | "or";
  conditions: Condition[];
}

export type Condition = Filter | Junction;

/** Deeper ones are refused: nobody writes them by hand, and each level costs stack. */
export const MAX_LOGIC_DEPTH = 32;

const SIMPLE: Record<string, string> = {
  neq: "<>",
  cs: "@>",
  cd: "<@",
  ov: "&&",
  sl: "<<",
  sr: ">>",
  nxr: "&<",
  nxl: "&>",
  adj: "-|-",
};
/** Those that also come as `eq(any)` and `eq(all)`. */
const QUANTIFIABLE: Record<string, string> = {
  eq: "=",
  gte: ">=",
  gt: ">",
  lte: "<=",
  lt: "<",
  like: "like",
  ilike: "ilike",
  match: "~",
  imatch: "~*",
};
const SEARCHES: Record<string, string> = {
  fts: "to_tsquery",
  plfts: "plainto_tsquery",
  phfts: "phraseto_tsquery",
  wfts: "websearch_to_tsquery",
};
const IS_VALUES: Record<string, "null" | "not null" | "true" | "false" | "unknown"> = {
  null: "null",
  not_null: "not null",
  true: "true",
  false: "false",
  unknown: "unknown",
};

const EXPECTED_CONDITION = "field name (* or [a..z0..9_$]), negation operator (not) or logic operator (and, or)";
const EXPECTED = '"not" or operator (eq, gt, ...)';

/** Read `[not.]operator.value`; what follows the operator is read by `readValue`. */
export function readOperation(scanner: Scanner, readValue: () => string): Omit<Filter, "kind" | "field"> {
  const isNegated = scanner.take("not.");
  const name = scanner.match(/[a-z]+(?=[.(])/y)?.[0] ?? scanner.fail(EXPECTED);
  return { isNegated, operation: readNamed(scanner, name, readValue) };
}

function readNamed(scanner: Scanner, name: string, readValue: () => string): Operation {
  if (Object.hasOwn(QUANTIFIABLE, name)) {
    const operator = QUANTIFIABLE[name];
    const quantifier = scanner.match(/\((any|all)\)/y)?.[1] as "any" | "all" | undefined;
    scanner.expect(".");
    const read = readValue();
    const value = operator.endsWith("like") ? read.replaceAll("*", "%") : read;
    return quantifier ? { kind: "each", operator, quantifier, value } : { kind: "compare", operator, value };
  }
  if (Object.hasOwn(SEARCHES, name)) {
    const language = scanner.match(/\(([\p{L}\p{N}_ $]+)\)/uy)?.[1];
    scanner.expect(".");
    return { kind: "search", parser: SEARCHES[name], language, value: readValue() };
  }
  if (scanner.startsWith(".") && Object.hasOwn(SIMPLE, name)) {
    scanner.expect(".");
    return { kind: "compare", operator: SIMPLE[name], value: readValue() };
  }
  if (scanner.startsWith(".")) {
    if (name === "in") return { kind: "in", values: readList(scanner) };
    if (name === "is") return { kind: "is", value: readIs(scanner) };
    if (name === "isdistinct" && scanner.take(".")) return { kind: "distinct", value: readValue() };
  }
  scanner.at -= name.length;
  return scanner.fail(EXPECTED);
}

function readIs(scanner: Scanner) {
  scanner.expect(".");
  const found = scanner.match(/not_null|null|true|false|unknown/iy)?.[0].toLowerCase();
  return found ? IS_VALUES[found] : scanner.fail("isVal: (null, not_null, true, false, unknown)");
}

function readList(scanner: Scanner): string[] {
  scanner.expect(".");
  scanner.spaces();
  scanner.expect("(");
  scanner.spaces();
  const values: string[] = [];
  // Nothing between the parentheses is the empty list; one empty text is written `("")`.
  const isEmpty = scanner.startsWith(")");
  while (!isEmpty) {
    values.push(quotedElement(scanner) ?? scanner.match(/[^,)]*/y)![0]);
    if (!scanner.take(",")) break;
  }
  scanner.expect(")");
  scanner.spaces();
  return values;
}

/** A quoted text that is a whole element; a quote elsewhere is a character like others. */
function quotedElement(scanner: Scanner): string | null {
  return scanner.attempt(() => {
    const text = scanner.quoted();
    return text !== null && /[,)]/.test(scanner.text[scanner.at] ?? ")") ? text : null;
  });
}

/** Read the whole value of a query parameter as an operation. */
export function readParameter(text: string): Omit<Filter, "kind" | "field"> {
  const scanner = new Scanner(text, "filter");
  const read = readOperation(scanner, () => {
    const value = scanner.text.slice(scanner.at);
    scanner.at = scanner.text.length;
    return value;
  });
  if (!scanner.atEnd) scanner.fail("end of input");
  return read;
}

/** Read `(a.eq.1,or(…))` as the conditions of `and` or `or`. */
export function readJunction(text: string, operator: "and" | "or", isNegated: boolean): Junction {
  const scanner = new Scanner(text, "logic tree", `${isNegated ? "not." : ""}${operator}`.length);
  // What follows the closing parenthesis is ignored, as PostgREST does: clients close one too many.
  const conditions = readConditions(scanner, 1);
  return { kind: "junction", operator, isNegated, conditions };
}

function readConditions(scanner: Scanner, depth: number): Condition[] {
  if (depth > MAX_LOGIC_DEPTH) scanner.fail(`at most ${MAX_LOGIC_DEPTH} levels of and() and or()`);
  scanner.spaces();
  scanner.expect("(");
  const conditions: Condition[] = [];
  do {
    scanner.spaces();
    conditions.push(readCondition(scanner, depth));
    scanner.spaces();
  } while (scanner.take(","));
  scanner.expect(")");
  scanner.spaces();
  return conditions;
}

function readCondition(scanner: Scanner, depth: number): Condition {
  const junction = scanner.match(/(not\.)?(and|or)(?=[ \t]*\()/y);
  if (junction) {
    const operator = junction[2] as "and" | "or";
    return { kind: "junction", isNegated: !!junction[1], operator, conditions: readConditions(scanner, depth + 1) };
  }
  if (scanner.startsWith(")")) scanner.fail(EXPECTED_CONDITION);
  const field = scanner.field();
  scanner.expect(".");
  return { kind: "filter", field, ...readOperation(scanner, () => readEmbeddedValue(scanner)) };
}

/** A value inside `and()` or `or()`: quoted, in braces, or up to the next comma or parenthesis. */
function readEmbeddedValue(scanner: Scanner): string {
  return quotedElement(scanner) ?? readBraces(scanner) ?? scanner.match(/[^,)]*/y)![0];
}

function readBraces(scanner: Scanner): string | null {
  return scanner.attempt(() => {
    if (!scanner.startsWith("{")) return null;
    const start = scanner.at;
    let depth = 0;
    do {
      const token = scanner.match(/"(?:[^"\\]|\\[^])*"|[^]/y)?.[0];
      if (token === undefined) return null;
      if (token === "{") depth++;
      if (token === "}") depth--;
    } while (depth > 0);
    return /[,)]/.test(scanner.text[scanner.at] ?? ")") ? scanner.text.slice(start, scanner.at) : null;
  });
}
