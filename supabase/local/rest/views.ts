/** Which columns of tables a view's columns are, so that foreign keys hold for views too. */
import type { ColumnId, Relation } from "./schema.ts";

const OUTPUT = /:resno (\d+) .*?:resorigtbl (\d+) :resorigcol (\d+) :resjunk (true|false)/;

/** Read a view's stored query: `({QUERY … :targetList ({TARGETENTRY … :resno 1 … :resorigtbl 16385 …} …) …})`. */
export function viewOrigins(
  definition: string,
  view: Relation,
  relations: Map<string, Relation>,
): Map<string, ColumnId[]> {
  const origins = new Map<string, ColumnId[]>();
  const nameOf = (relation: Relation | undefined, number: string) =>
    [...relation?.columns.values() ?? []].find((column) => column.number === Number(number))?.name;
  for (const entry of outermostEntries(definition)) {
    const [, position, relation, number, isJunk] = OUTPUT.exec(entry) ?? [];
    if (position === undefined || isJunk === "true") continue;
    const [name, column] = [nameOf(view, position), nameOf(relations.get(relation), number)];
    if (name !== undefined && column !== undefined) origins.set(name, [{ relation, column }]);
  }
  return origins;
}

/** The text of each entry of the outermost query's target list, without what is nested in its expression. */
function outermostEntries(definition: string): string[] {
  const entries: string[] = [];
  let depth = 0;
  let isInList = false;
  let own = "";
  const token = /\\[^]|[{}]|:targetList |:[a-zA-Z]+ |[^\\{}:]+|:/g;
  for (const [text] of definition.matchAll(token)) {
    if (text === "{") depth++;
    else if (text === "}") {
      if (depth === 2 && isInList) {
        entries.push(own);
        own = "";
      }
      depth--;
    } else if (depth === 1 && text.startsWith(":")) isInList = text === ":targetList ";
    else if (depth === 2 && isInList) own += text;
  }
  return entries;
}
