/** The state of a view, held by its URL: what differs from the defaults is written there. */
import { useCallback, useMemo, useRef } from "react";
import { useSearchParams } from "react-router";

type Value = string | number | boolean | string[] | null;
export type ViewState = Record<string, Value>;

function read<T extends ViewState>(params: URLSearchParams, defaults: T): T {
  const state: ViewState = {};
  for (const [name, fallback] of Object.entries(defaults)) {
    const text = params.get(name);
    if (text === null) state[name] = fallback;
    else if (Array.isArray(fallback)) state[name] = params.getAll(name);
    else if (typeof fallback === "number") state[name] = Number.isFinite(Number(text)) ? Number(text) : fallback;
    else if (typeof fallback === "boolean") state[name] = text === "true";
    else state[name] = text;
  }
  return state as T;
}

function write(params: URLSearchParams, defaults: ViewState, changes: ViewState): URLSearchParams {
  const next = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    if (value === null || JSON.stringify(value) === JSON.stringify(defaults[name])) continue;
    if (!Array.isArray(value)) next.set(name, String(value));
    else value.forEach((item) => next.append(name, item));
  }
  return next;
}

/**
 * Read and change the view. `null` as a default is a text that may be missing.
 *
 * A change replaces the history entry, so that Back leaves the page; `{ push: true }` makes a new one.
 */
export function useView<T extends ViewState>(
  defaults: T,
): [T, (changes: Partial<T>, options?: { push?: boolean }) => void] {
  const [params, setParams] = useSearchParams();
  const known = useRef(defaults).current;
  const state = useMemo(() => read(params, known), [params, known]);
  const change = useCallback((changes: Partial<T>, options: { push?: boolean } = {}) => {
    // From the address as it is: what the router hands over may lack a change that was made a moment ago.
    setParams(() => write(new URLSearchParams(location.search), known, changes as ViewState), {
      replace: !options.push,
      preventScrollReset: true,
    });
  }, [setParams, known]);
  return [state, change];
}
