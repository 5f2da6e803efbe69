/** Settings as a flat list of paths and values, and what differs between two of them. */
export interface Entry {
  path: string;
  value: string;
}

const byNumbersToo = new Intl.Collator("en", { numeric: true });
const MOST_ENTRIES = 20_000;

/** {a: {b: [1]}} as a.b.0 = 1; what holds nothing is shown as it is. */
export function entriesOf(settings: unknown): Entry[] {
  const found: Entry[] = [];
  const walk = (value: unknown, path: string) => {
    if (found.length >= MOST_ENTRIES) return;
    const members = value !== null && typeof value === "object" ? Object.entries(value) : [];
    if (members.length === 0) {
      if (path) found.push({ path, value: shown(value) });
      return;
    }
    members.forEach(([name, member]) => walk(member, path ? `${path}.${name}` : name));
  };
  walk(settings, "");
  return found.sort((a, b) => byNumbersToo.compare(a.path, b.path));
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value) ?? String(value);
}

export interface Difference {
  path: string;
  kind: "added" | "removed" | "changed";
  here: string | null;
  there: string | null;
}

/** What is here and not there is added. */
export function differences(here: Entry[], there: Entry[]): Difference[] {
  const others = new Map(there.map(({ path, value }) => [path, value]));
  const found: Difference[] = [];
  for (const { path, value } of here) {
    const other = others.get(path);
    others.delete(path);
    if (other === undefined) found.push({ path, kind: "added", here: value, there: null });
    else if (other !== value) found.push({ path, kind: "changed", here: value, there: other });
  }
  for (const [path, value] of others) found.push({ path, kind: "removed", here: null, there: value });
  return found.sort((a, b) => byNumbersToo.compare(a.path, b.path));
}
