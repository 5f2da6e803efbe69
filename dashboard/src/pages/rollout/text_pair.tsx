/** Two texts next to each other, with what only one of them has marked. */
import { Anchor, Text } from "@mantine/core";
import { useMemo, useState } from "react";
import { plain } from "@/components/agent_text.tsx";
import { type Piece, pieces } from "./differences.ts";
import styles from "./page.module.css";

/** A text of which perhaps only the beginning is here. */
export interface CutText {
  text: string;
  chars: number | null;
  readAll: (() => Promise<string>) | null;
}

const MOST_CHARS = 200_000;

function isCut(side: CutText | null): boolean {
  return side !== null && (side.chars ?? 0) > side.text.length;
}

export function TextPair({ label, one, other }: { label: string; one: CutText | null; other: CutText | null }) {
  const [whole, setWhole] = useState<[string | null, string | null] | null>(null);
  const [left, right] = whole ?? [one?.text ?? null, other?.text ?? null];
  const found = useMemo(
    () => left === null || right === null || left === right ? null : pieces(left, right),
    [left, right],
  );
  if (left === null && right === null) return null;
  const wasCut = !whole && (isCut(one) || isCut(other));
  const readBoth = async () => {
    const read = async (side: CutText | null) =>
      (await side?.readAll?.() ?? side?.text ?? null)?.slice(0, MOST_CHARS) ?? null;
    setWhole([await read(one), await read(other)]);
  };
  return (
    <div>
      <Text size="xs" c="dimmed">
        {label}
        {left !== right ? "" : wasCut ? ", the beginning is the same" : ", the same"}
        {left !== null && right !== null && left !== right && !found && ", too different to mark"}
      </Text>
      <div className={styles.pair}>
        {[left, right].map((text, side) => (
          <div key={side} className={styles.part_text} data-kind={label.toLowerCase()}>
            {text === null
              ? <Text size="sm" c="dimmed">—</Text>
              : (
                <pre className="om-agent-text"><Pieces of={found?.[side] ?? [{ text, isOnly: false }]} side={side} /></pre>
              )}
          </div>
        ))}
      </div>
      {wasCut && (
        <Anchor component="button" type="button" size="sm" onClick={() => void readBoth()}>
          Compare the whole texts ({(one?.chars ?? 0).toLocaleString("en-US")} and{" "}
          {(other?.chars ?? 0).toLocaleString("en-US")} characters)
        </Anchor>
      )}
    </div>
  );
}

function Pieces({ of, side }: { of: Piece[]; side: number }) {
  return of.map(({ text, isOnly }, index) =>
    !isOnly
      ? <span key={index}>{plain(text)}</span>
      : side
      ? <ins key={index}>{plain(text)}</ins>
      : <del key={index}>{plain(text)}</del>
  );
}
