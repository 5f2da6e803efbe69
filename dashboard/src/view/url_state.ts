/** The state of a view, held by its URL. */
import { useCallback, useMemo, useRef } from "react";
import { useSearchParams } from "react-router";
import { readState, type ViewState, writeState } from "./state.ts";

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
  const state = useMemo(() => readState(params, known), [params, known]);
  const change = useCallback((changes: Partial<T>, options: { push?: boolean } = {}) => {
    // From the address as it is: what the router hands over may lack a change that was made a moment ago.
    setParams(() => writeState(new URLSearchParams(location.search), known, changes as ViewState), {
      replace: !options.push,
      preventScrollReset: true,
    });
  }, [setParams, known]);
  return [state, change];
}
