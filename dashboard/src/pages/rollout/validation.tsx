import { Button, Group, Modal, Text } from "@mantine/core";
import { useState } from "react";
import type { Override } from "@/api/rollout.ts";
import { plain } from "@/components/agent_text.tsx";
import { StatusBadge } from "@/components/status.tsx";
import type { Row } from "@/database.ts";
import { number } from "@/view/format.ts";
import { KnownText } from "./behind.tsx";
import styles from "./page.module.css";

const SHORT_CHARS = 160;

/** What a validator said, with what it expected and what it got. */
export function Validation({ validation: v, override }: { validation: Row<"validations">; override?: Override }) {
  const [isLarge, setLarge] = useState(false);
  const isLong = Math.max(v.expected?.length ?? 0, v.actual?.length ?? 0) > SHORT_CHARS;
  return (
    <div>
      <Group gap="xs">
        <Text size="sm" fw={600}>{plain(v.validator_name)}</Text>
        <StatusBadge status={v.verdict} />
        {override?.verdict && <Text size="xs">by hand: {override.verdict}</Text>}
        {v.score !== null && <Text size="xs" c="dimmed">score {number(v.score)}</Text>}
      </Group>
      {v.message && <Text size="sm">{plain(v.message.slice(0, 2_000))}</Text>}
      <Sides validation={v} cut={SHORT_CHARS} />
      {isLong && (
        <Button size="compact-xs" variant="default" mt={4} onClick={() => setLarge(true)}>
          Expected and actual in full
        </Button>
      )}
      <Modal
        opened={isLarge}
        onClose={() => setLarge(false)}
        size="90%"
        title={plain(v.validator_name)}
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <Sides validation={v} />
      </Modal>
    </div>
  );
}

function Sides({ validation: { expected, actual }, cut }: { validation: Row<"validations">; cut?: number }) {
  if (expected === null && actual === null) return null;
  return (
    <div className={styles.pair}>
      {([["Expected", expected], ["Actual", actual]] as const).map(([label, text]) => (
        <div key={label}>
          <Text size="xs" c="dimmed">{label}</Text>
          {text === null ? <Text size="sm" c="dimmed">—</Text> : cut
            ? (
              <pre
                className="om-agent-text"
                data-agent-text
              >{plain(text.slice(0, cut))}{text.length > cut ? "…" : ""}</pre>
            )
            : <KnownText text={text} label={label} />}
        </div>
      ))}
    </div>
  );
}
