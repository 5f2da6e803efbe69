/** Pages whose code is fetched when they are opened: the server may be away by then, or have another release. */
import { type ComponentType, lazy } from "react";

/** The code of a page could not be fetched. What failed to load once is not asked for again: only reloading helps. */
export class CodeMissing extends Error {}

export function lazyPage(load: () => Promise<{ default: ComponentType }>) {
  return lazy(() =>
    load().catch((error: Error) => {
      throw new CodeMissing(error.message);
    })
  );
}

const RELOADED_AT = "openmanus-rl reloaded";
/** A reload that did not help is not tried again at once. */
const PAUSE_MS = 30_000;

/** Whether the server answers. */
export async function isReachable(): Promise<boolean> {
  const response = await fetch(new URL("config.json", document.baseURI), { cache: "no-store" }).catch(() => null);
  return response?.ok ?? false;
}

/** Reload, unless that was just done. */
export function reloadOnce(): boolean {
  if (Date.now() - Number(sessionStorage.getItem(RELOADED_AT)) < PAUSE_MS) return false;
  sessionStorage.setItem(RELOADED_AT, String(Date.now()));
  location.reload();
  return true;
}
