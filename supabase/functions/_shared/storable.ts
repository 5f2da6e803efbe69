/** What JSON can say and Postgres cannot keep. */

/** Deeper nesting is no data of ours, and every later reader would have to recurse as deep. */
export const MAX_DEPTH = 200;

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;

export interface Problem {
  /** The field at fault, such as `tool_calls.0.tool_name`; empty for the whole input. */
  path: string;
  message: string;
}

/** The first thing in a parsed JSON value that the database could not keep as it is, or null. */
export function findUnstorable(input: unknown): Problem | null {
  const path: string[] = [];
  const fault = (message: string): Problem => ({ path: path.join("."), message });

  const search = (value: unknown): Problem | null => {
    if (typeof value === "string") {
      const reason = unstorableText(value);
      return reason === null ? null : fault(reason);
    }
    if (typeof value === "number" && !Number.isFinite(value)) {
      return fault('the number is too large; where it may be infinite, send "Infinity" or "-Infinity"');
    }
    if (typeof value !== "object" || value === null) return null;
    if (path.length >= MAX_DEPTH) return { path: path[0], message: `is nested deeper than ${MAX_DEPTH} levels` };
    for (const key in value) {
      const reason = unstorableText(key);
      if (reason !== null) return fault(`a key ${reason}`);
      path.push(key);
      const problem = search(value[key as keyof typeof value]);
      if (problem !== null) return problem;
      path.pop();
    }
    return null;
  };
  return search(input);
}

function unstorableText(text: string): string | null {
  if (text.includes("\0")) return "has a NUL character (\\u0000), which Postgres cannot keep; remove it";
  if (LONE_SURROGATE.test(text)) return "has half of a surrogate pair, which is no character; remove it";
  return null;
}
