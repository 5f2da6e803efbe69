/** What two rollouts have in common, turn by turn, and how two texts differ. */
import { diffLines, diffWordsWithSpace } from "diff";
import type { Fingerprints } from "@/api/rollout.ts";

/** A stretch of equal turns, or a turn in which the two differ. */
export type DifferenceRow = { kind: "same"; from: number; to: number } | {
  kind: "turn";
  step: number;
  isSame: boolean;
};

/** A single equal turn between others is not worth hiding. */
const FEWEST_HIDDEN = 2;

/** All turns of either, in order; stretches of equal ones are one row, unless they are opened. */
export function differenceRows(one: Fingerprints, other: Fingerprints, opened: ReadonlySet<number>): DifferenceRow[] {
  const hashes = new Map(one.step_numbers.map((step, index) => [step, one.fingerprints[index]!]));
  const others = new Map(other.step_numbers.map((step, index) => [step, other.fingerprints[index]!]));
  const steps = [...new Set([...hashes.keys(), ...others.keys()])].sort((a, b) => a - b);
  const rows: DifferenceRow[] = [];
  let equal: number[] = [];
  const close = () => {
    const from = equal[0];
    if (from === undefined) return;
    if (equal.length < FEWEST_HIDDEN || opened.has(from)) {
      rows.push(...equal.map((step) => ({ kind: "turn" as const, step, isSame: true })));
    } else {
      rows.push({ kind: "same", from, to: equal.at(-1)! });
    }
    equal = [];
  };
  for (const step of steps) {
    if (hashes.get(step) === others.get(step)) {
      equal.push(step);
      continue;
    }
    close();
    rows.push({ kind: "turn", step, isSame: false });
  }
  close();
  return rows;
}

export interface Piece {
  text: string;
  /** Whether it is in one of the two texts only. */
  isOnly: boolean;
}

const MOST_WORD_CHARS = 20_000;
/** Texts that have nothing in common would take for ever. */
const LONGEST_MS = 150;

/** Two texts in pieces: word by word, or line by line where they are long. null: they differ too much to say. */
export function pieces(one: string, other: string): [Piece[], Piece[]] | null {
  const isShort = one.length <= MOST_WORD_CHARS && other.length <= MOST_WORD_CHARS;
  const bounds = { timeout: LONGEST_MS };
  const changes = isShort ? diffWordsWithSpace(one, other, bounds) : diffLines(one, other, bounds);
  if (!changes) return null;
  const of = (skipped: "added" | "removed") =>
    changes.filter((change) => !change[skipped]).map(({ value, added, removed }) => ({
      text: value,
      isOnly: !!(added || removed),
    }));
  return [of("added"), of("removed")];
}
