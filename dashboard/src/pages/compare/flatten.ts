/** Configurations as rows of a table: one a key, such as optimizer.lr, and what each run has for it. */

/** The leaves of one configuration, as JSON by key. */
type Leaves = Map<string, string>;

export interface ConfigRow {
  key: string;
  /** As JSON, in the order of the runs; undefined where a run has no such key. */
  values: (string | undefined)[];
  isSame: boolean;
}

/** Deeper than this a value is shown as one. */
const DEEPEST = 12;

/** layer_2 before layer_10. */
const inOrder = new Intl.Collator("en", { numeric: true }).compare;

function leavesOf(config: unknown): Leaves {
  const leaves: Leaves = new Map();
  const walk = (value: unknown, key: string, depth: number) => {
    const isBranch = value !== null && typeof value === "object" && !Array.isArray(value);
    const entries = isBranch && depth < DEEPEST ? Object.entries(value) : [];
    if (entries.length) entries.forEach(([name, inner]) => walk(inner, joined(key, name), depth + 1));
    else if (key) leaves.set(key, JSON.stringify(value));
  };
  walk(config, "", 0);
  return leaves;
}

/** A name with a dot in it is quoted: "a.b" is another key than b in a. */
function joined(key: string, name: string): string {
  const part = name === "" || name.includes(".") ? JSON.stringify(name) : name;
  return key ? `${key}.${part}` : part;
}

export function configRows(configs: unknown[]): ConfigRow[] {
  const all = configs.map(leavesOf);
  const keys = [...new Set(all.flatMap((leaves) => [...leaves.keys()]))].sort(inOrder);
  return keys.map((key) => {
    const values = all.map((leaves) => leaves.get(key));
    return { key, values, isSame: values.every((value) => value === values[0]) };
  });
}

/** A leaf as people write it: text without its quotes, unless it would look like something else. */
export function shown(json: string): string {
  const value: unknown = JSON.parse(json);
  if (typeof value !== "string") return json;
  const looksOtherwise = value.trim() === "" || /^(true|false|null|[-+]?[\d.]+(e[-+]?\d+)?)$/i.test(value) ||
    /^[[{"]/.test(value);
  return looksOtherwise ? json : value;
}
