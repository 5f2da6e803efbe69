/** Tokens with how sure the model was of each, said by colour, by the line below and in words. */
import { Anchor, Group, Text } from "@mantine/core";
import { type KeyboardEvent, memo, useRef, useState } from "react";
import type { Tokens } from "@/api/rollout.ts";
import { plain } from "@/components/agent_text.tsx";
import { type Double, number, percent, UNKNOWN } from "@/view/format.ts";
import styles from "./page.module.css";

/** From these probabilities down, a token stands out more and more. */
const LEVELS = [
  { below: 0.9, label: "90% and more" },
  { below: 0.5, label: "50–90%" },
  { below: 0.1, label: "10–50%" },
  { below: 0.01, label: "1–10%" },
  { below: 0, label: "less than 1%" },
];
const PIECE = 1_500;

function levelOf(logprob: Double | null | undefined): number | undefined {
  if (logprob === null || logprob === undefined || Number.isNaN(Number(logprob))) return undefined;
  const probability = Math.exp(Number(logprob));
  const level = LEVELS.findIndex(({ below }) => probability >= below);
  return level < 0 ? LEVELS.length - 1 : level;
}

function advantageOf({ advantages }: Tokens, index: number): Double | null {
  return advantages?.[advantages.length === 1 ? 0 : index] ?? null;
}

/** A token in words. */
function described(tokens: Tokens, index: number): string {
  const logprob = tokens.logprobs?.[index] ?? null;
  const text = tokens.tokens?.[index];
  return [
    text === undefined ? null : JSON.stringify(plain(text)),
    `id ${tokens.completion_ids[index]}`,
    logprob === null ? null : `logprob ${number(logprob)}, probability ${percent(Math.exp(Number(logprob)))}`,
    tokens.advantages ? `advantage ${number(advantageOf(tokens, index))}` : null,
    tokens.mask ? (tokens.mask[index] ? "trained on" : "masked out") : null,
  ].filter(Boolean).join(" · ");
}

export function TokenView({ tokens }: { tokens: Tokens }) {
  const count = tokens.completion_ids.length;
  const [shown, setShown] = useState(PIECE);
  const [active, setActive] = useState<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  if (!count) return <Text size="sm" c="dimmed">This generation has no tokens.</Text>;

  const move = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(Math.min(shown, count) - 1, active === null ? 0 : active + by));
    setActive(next);
    box.current?.querySelector(`[data-n="${next}"]`)?.scrollIntoView({ block: "nearest" });
  };
  const point = (target: EventTarget) => {
    const given = (target as HTMLElement).dataset?.n;
    if (given !== undefined) setActive(Number(given));
  };

  return (
    <div>
      <Legend tokens={tokens} />
      <div
        ref={box}
        className={styles.tokens}
        tabIndex={0}
        role="group"
        aria-label={`${count} tokens; the arrow keys go from one to the next`}
        onKeyDown={move}
        onMouseOver={(event) => point(event.target)}
        onClick={(event) => point(event.target)}
      >
        {Array.from({ length: Math.ceil(Math.min(shown, count) / PIECE) }, (_, piece) => (
          <Piece
            key={piece}
            tokens={tokens}
            from={piece * PIECE}
            active={active !== null && Math.floor(active / PIECE) === piece ? active : null}
          />
        ))}
      </div>
      <Text size="xs" aria-live="polite" mih={18}>
        {active === null
          ? "Point at a token, or go with the arrow keys, to read its figures."
          : described(tokens, active)}
      </Text>
      {shown < count && (
        <Anchor component="button" type="button" size="sm" onClick={() => setShown(shown + PIECE)}>
          Show more tokens ({number(shown)} of {number(count)})
        </Anchor>
      )}
    </div>
  );
}

const Piece = memo(function Piece({ tokens, from, active }: { tokens: Tokens; from: number; active: number | null }) {
  const { completion_ids: ids, tokens: texts, logprobs, mask } = tokens;
  return ids.slice(from, from + PIECE).map((id, offset) => {
    const index = from + offset;
    return (
      <span
        key={index}
        className={styles.token}
        data-n={index}
        data-id={texts ? undefined : ""}
        data-level={levelOf(logprobs?.[index])}
        data-masked={mask && !mask[index] ? "" : undefined}
        data-active={active === index ? "" : undefined}
        title={described(tokens, index)}
      >
        {texts ? plain(texts[index] ?? UNKNOWN) : id}
      </span>
    );
  });
});

function Legend({ tokens }: { tokens: Tokens }) {
  return (
    <Group gap="sm" mb={4} fz="xs">
      {tokens.logprobs
        ? (
          <>
            <Text size="xs" c="dimmed">Probability</Text>
            {LEVELS.map(({ label }, level) => (
              <span key={label} className={styles.token} data-level={level}>{label}</span>
            ))}
          </>
        )
        : <Text size="xs" c="dimmed">No logprobs were recorded.</Text>}
      {tokens.mask && <span className={styles.token} data-masked="">masked out</span>}
      {!tokens.tokens && <Text size="xs" c="dimmed">The texts are not known; these are the ids.</Text>}
    </Group>
  );
}
