/** A whole rollout as a file, read a page at a time. */
import {
  readOverrides,
  readRawRewards,
  readRawRollout,
  readRawTurns,
  readValidations,
  type Rollout,
} from "@/api/rollout.ts";

const PAGE = 40;

export async function exportRollout(rollout: Rollout, onProgress: (turns: number) => void, signal: AbortSignal) {
  const [row, rewards, validations, overrides] = await Promise.all([
    readRawRollout(rollout.id),
    readRawRewards(rollout.id),
    readValidations(rollout.id),
    readOverrides(rollout.id),
  ]);
  const head = JSON.stringify({ rollout: row, rewards, validations, validation_overrides: overrides });
  // Pieces, not one text: together they may be longer than a text can be.
  const pieces = [head.slice(0, -1), ',"turns":['];
  let after = -1;
  for (let count = 0;;) {
    signal.throwIfAborted();
    const page = await readRawTurns(rollout.id, after, PAGE);
    if (!page.length) break;
    pieces.push(`${count ? "," : ""}\n`, page.map((turn) => JSON.stringify(turn)).join(",\n"));
    after = page.at(-1)!.step_number;
    onProgress(count += page.length);
  }
  signal.throwIfAborted();
  pieces.push("\n]}\n");
  const address = URL.createObjectURL(new Blob(pieces, { type: "application/json" }));
  Object.assign(document.createElement("a"), { href: address, download: `rollout-${rollout.id}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
