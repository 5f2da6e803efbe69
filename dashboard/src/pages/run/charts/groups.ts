/** Which metrics are shown, and in which section. */
export interface Section {
  prefix: string;
  names: string[];
}

/** A test of names from what someone typed: a part of the name, or /an expression/. Null where it is no valid expression. */
export function nameTest(typed: string): ((name: string) => boolean) | null {
  const text = typed.trim();
  if (text.length > 1 && text.startsWith("/")) {
    try {
      const expression = new RegExp(text.slice(1).replace(/\/$/, ""), "i");
      return (name) => expression.test(name);
    } catch {
      return null;
    }
  }
  const low = text.toLowerCase();
  return (name) => name.toLowerCase().includes(low);
}

/** Sections by what stands before the first "/"; names without one come first. */
export function sectionsOf(names: string[]): Section[] {
  const found = new Map<string, string[]>();
  for (const name of names) {
    const prefix = name.includes("/") ? name.slice(0, name.indexOf("/")) : "";
    const members = found.get(prefix);
    if (members) members.push(name);
    else found.set(prefix, [name]);
  }
  return [...found].map(([prefix, members]) => ({ prefix, names: members.sort(byNumbersToo.compare) }))
    .sort((a, b) => byNumbersToo.compare(a.prefix, b.prefix));
}

/** layer_2 before layer_10. */
const byNumbersToo = new Intl.Collator("en", { numeric: true });
