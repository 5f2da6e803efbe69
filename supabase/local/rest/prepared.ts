/** Which statements are prepared: those that come again, and not more than the memory of every connection should hold. */

const MOST_PREPARED = 500;
const MOST_SEEN_ONCE = 2000;

const prepared = new Set<string>();
const seenOnce = new Set<string>();

/** Whether a statement is worth preparing; the texts of the oldest of those seen once are forgotten. */
export function mayPrepare(text: string): boolean {
  if (prepared.has(text)) return true;
  if (text.length > 16_384 || prepared.size >= MOST_PREPARED) return false;
  if (seenOnce.delete(text)) {
    prepared.add(text);
    return true;
  }
  if (seenOnce.size >= MOST_SEEN_ONCE) seenOnce.delete(seenOnce.keys().next().value!);
  seenOnce.add(text);
  return false;
}

/** For another schema other statements are made. */
export function forgetPrepared(): void {
  prepared.clear();
  seenOnce.clear();
}
