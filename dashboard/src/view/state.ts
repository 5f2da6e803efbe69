/** The state of a view as the query of its URL: what differs from the defaults is written there. */

type Value = string | number | boolean | string[] | null;
export type ViewState = Record<string, Value>;

/** The state that a query stands for; what it does not say, or says wrongly, is the default. */
export function readState<T extends ViewState>(params: URLSearchParams, defaults: T): T {
  const state: ViewState = {};
  for (const [name, fallback] of Object.entries(defaults)) {
    const text = params.get(name);
    state[name] = text === null ? fallback : valueOf(text, params.getAll(name), fallback);
  }
  return state as T;
}

function valueOf(text: string, all: string[], fallback: Value): Value {
  // Nothing is how an empty list is written.
  if (Array.isArray(fallback)) return all.filter((item) => item !== "");
  if (typeof fallback === "number") return text.trim() && Number.isFinite(Number(text)) ? Number(text) : fallback;
  if (typeof fallback === "boolean") return text === "true";
  return text;
}

/** The query after some changes; `null` and the default are left out, so that addresses stay short. */
export function writeState(params: URLSearchParams, defaults: ViewState, changes: ViewState): URLSearchParams {
  const next = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    if (value === null || JSON.stringify(value) === JSON.stringify(defaults[name])) continue;
    if (!Array.isArray(value)) next.set(name, String(value));
    else if (value.length === 0) next.set(name, "");
    else value.forEach((item) => next.append(name, item));
  }
  return next;
}
