/** A named part of a turn; what is long shows its beginning. */
import { Anchor } from "@mantine/core";
import type { ReactNode } from "react";
import { AgentText } from "@/components/agent_text.tsx";
import { useKeptOpen } from "./kept_open.ts";
import styles from "./page.module.css";

const CLAMPED_LINES = 15;
const LINE_CHARS = 110;

function lineCount(text: string): number {
  let lines = 0;
  for (const line of text.split("\n")) lines += 1 + Math.floor(line.length / LINE_CHARS);
  return lines;
}

interface TextProps {
  /** Names the text among all of the page. */
  name: string;
  label: string;
  text: string;
  chars?: number | null;
  find?: string | null;
  readAll?: () => Promise<string>;
}

/** A text of which some lines are shown until one asks for more. */
export function LongText({ name, label, text, chars, find, readAll }: TextProps) {
  const [isOpen, setOpen] = useKeptOpen(name);
  const isLong = lineCount(text) > CLAMPED_LINES + 3;
  // A hit must not hide below the fold.
  const isClamped = isLong && !isOpen && !(find && text.toLowerCase().includes(find.toLowerCase()));
  return (
    <>
      <div className={isClamped ? styles.clamped : undefined}>
        <AgentText
          key={isClamped ? "clamped" : "open"}
          text={text}
          chars={isClamped ? undefined : chars}
          find={find}
          readAll={readAll}
          label={label}
        />
      </div>
      {isLong && (isClamped || isOpen) && (
        <Anchor
          component="button"
          type="button"
          size="sm"
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          {isClamped
            ? `Show more of ${label.toLowerCase()}${chars ? ` (${chars.toLocaleString("en-US")} characters)` : ""}`
            : "Show less"}
        </Anchor>
      )}
    </>
  );
}

export function Part({ label, kind, field, children }: {
  label: string;
  kind?: string;
  field?: string;
  children: ReactNode;
}) {
  return (
    <div className={styles.part}>
      <div className={styles.part_label}>{label}</div>
      <div className={styles.part_text} data-kind={kind} data-field={field}>{children}</div>
    </div>
  );
}

/** Something behind a button: it is read when it is opened. */
export function OnDemand({ name, label, children }: { name: string; label: string; children: () => ReactNode }) {
  const [isOpen, setOpen] = useKeptOpen(name);
  return (
    <div>
      <Anchor component="button" type="button" size="sm" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? "Hide" : "Show"} {label}
      </Anchor>
      {isOpen && <div style={{ marginTop: 4 }}>{children()}</div>}
    </div>
  );
}
