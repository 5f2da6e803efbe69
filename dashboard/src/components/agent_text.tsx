/** Text from agents and tools, shown as it is. React escapes it; nothing here makes HTML of it. */
import { ActionIcon, Anchor, CopyButton, Group, Text, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { memo, useMemo, useState } from "react";
import { bytes } from "@/view/format.ts";

/** Control and direction characters that could hide or reorder what is shown. */
// deno-lint-ignore no-control-regex
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Show hidden characters as what they are: ⟨U+202E⟩. */
export function plain(text: string): string {
  return text.replace(
    HIDDEN,
    (character) => `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}

/** A text with what was searched for marked. */
export function Marked({ text, find }: { text: string; find?: string | null }) {
  const shown = plain(text);
  if (!find) return shown;
  const parts = [];
  const low = shown.toLowerCase();
  const wanted = find.toLowerCase();
  let from = 0;
  // Where lowering changes the length, places would not match: show it unmarked.
  if (low.length !== shown.length) return shown;
  for (let at = low.indexOf(wanted); at >= 0 && parts.length < 400; at = low.indexOf(wanted, from)) {
    parts.push(shown.slice(from, at), <mark key={at}>{shown.slice(at, at + wanted.length)}</mark>);
    from = at + wanted.length;
  }
  return [...parts, shown.slice(from)];
}

interface Props {
  text: string;
  /** The whole length, where `text` is only its beginning. */
  chars?: number | null;
  /** Its length in bytes, where that in characters is not known. */
  sizeBytes?: number;
  find?: string | null;
  /** Reads the whole text. */
  readAll?: () => Promise<string>;
  label?: string;
  /** In pixels: a longer text scrolls within its place. */
  maxHeight?: number;
}

const STEP_CHARS = 100_000;

/** Lines of right-to-left text take browsers a time that grows with the square of their length: 10 s for 100,000. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const RIGHT_TO_LEFT_CHARS = 5_000;

/**
 * A text in pieces that end with a line where there is one, else with a word: what was shown stays as it is when more is
 * shown.
 */
export function piecesOf(text: string): string[] {
  const most = RIGHT_TO_LEFT.test(text) ? RIGHT_TO_LEFT_CHARS : STEP_CHARS;
  const pieces: string[] = [];
  for (let from = 0; from < text.length;) {
    const hard = from + most;
    const last = (end: string) => hard < text.length ? text.lastIndexOf(end, hard - 1) : -1;
    const end = last("\n") >= from ? last("\n") : last(" ");
    const to = end >= from ? end + 1 : hard;
    pieces.push(text.slice(from, to));
    from = to;
  }
  return pieces;
}

const Piece = memo(function Piece({ text, find }: { text: string; find?: string | null }) {
  return (
    <pre className="om-agent-text">
      <Marked text={text.endsWith("\n") ? text.slice(0, -1) : text} find={find} />
    </pre>
  );
});

/** A text of any length: its beginning at once, the rest on request and piece by piece, so that 5 MB do not stop the page. */
export function AgentText({ text, chars, sizeBytes, find, readAll, label = "Text", maxHeight }: Props) {
  const [whole, setWhole] = useState<string | null>(null);
  const [shownChars, setShownChars] = useState(text.length);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const total = whole?.length ?? Math.max(chars ?? sizeBytes ?? 0, text.length);
  const isInBytes = whole === null && sizeBytes !== undefined;
  const shown = whole === null ? text : whole.slice(0, shownChars);
  const pieces = useMemo(() => piecesOf(shown), [shown]);

  const more = async () => {
    setBusy(true);
    setFailure(null);
    try {
      if (whole === null && readAll) setWhole(await readAll());
      setShownChars((before) => before + STEP_CHARS);
    } catch (error) {
      setFailure((error as Error).message);
    } finally {
      setBusy(false);
    }
  };

  return (
    <div>
      <div
        data-agent-text
        {...(maxHeight && {
          style: { maxHeight, overflow: "auto" },
          ...{ role: "region", "aria-label": label, tabIndex: 0 },
        })}
      >
        {pieces.map((piece, place) => <Piece key={place} text={piece} find={find} />)}
      </div>
      {failure && <Text size="sm" role="alert">The rest could not be read: {failure}</Text>}
      {shown.length < total && readAll && (
        <Group gap="xs" mt={4}>
          <Anchor component="button" type="button" size="sm" onClick={more} disabled={busy}>
            {busy ? "Reading…" : `Show more of ${bytes(total)}`}
          </Anchor>
          <Text size="sm" c="dimmed">
            {isInBytes
              ? "The beginning is shown"
              : `${shown.length.toLocaleString("en-US")} of ${total.toLocaleString("en-US")} characters shown`}
          </Text>
          <Anchor
            component="button"
            type="button"
            size="sm"
            onClick={() => void readAll().then((all) => download(all, `${label}.txt`))}
          >
            Download
          </Anchor>
        </Group>
      )}
    </div>
  );
}

/** Hand a text to the browser as a file. */
export function download(text: string, name: string, type = "text/plain"): void {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = Object.assign(document.createElement("a"), { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export function Copy({ text, what = "Copy" }: { text: string; what?: string }) {
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? "Copied" : what}>
          <ActionIcon size="sm" variant="subtle" color="gray" onClick={copy} aria-label={what}>
            {copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}
