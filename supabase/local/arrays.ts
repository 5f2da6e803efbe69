/** Postgres array literals, such as `{1,NULL,"a,b"}`. */

/** Read an array literal; each element's text goes through `parse`, NULL is null. */
export function parseArray(text: string, parse: (element: string) => unknown): unknown[] {
  // Arrays that do not start at 1 say so first: [0:1]={a,b}
  let at = text.startsWith("[") ? text.indexOf("=") + 1 : 0;

  const quoted = (): string => {
    let element = "";
    for (at++; text[at] !== '"'; at++) {
      if (text[at] === "\\") at++;
      element += text[at];
    }
    at++;
    return element;
  };
  const bare = (): string => {
    const start = at;
    while (text[at] !== "," && text[at] !== "}") at++;
    return text.slice(start, at);
  };
  const list = (): unknown[] => {
    const elements: unknown[] = [];
    at++;
    while (text[at] !== "}") {
      if (text[at] === "{") elements.push(list());
      else if (text[at] === '"') elements.push(parse(quoted()));
      else {
        const element = bare();
        elements.push(element === "NULL" ? null : parse(element));
      }
      if (text[at] === ",") at++;
    }
    at++;
    return elements;
  };
  return list();
}

/** Write an array literal; each element's text comes from `serialize`. */
export function formatArray(elements: unknown[], serialize: (element: unknown) => unknown): string {
  const written = elements.map((element) => {
    if (element === null || element === undefined) return "NULL";
    if (Array.isArray(element)) return formatArray(element, serialize);
    return `"${String(serialize(element)).replace(/["\\]/g, "\\$&")}"`;
  });
  return `{${written.join(",")}}`;
}
