/** Above the turns: search, what is shown of each, whether to follow the end. */
import { ActionIcon, Group, Switch, Text, Tooltip } from "@mantine/core";
import { IconKeyboard } from "@tabler/icons-react";
import type { Ref } from "react";
import styles from "./page.module.css";
import { CurrentMatch, type Search, SearchBox } from "./search.tsx";
import { ShownParts } from "./shown_parts.tsx";
import type { TurnsViewState } from "./turns_view.tsx";
import type { useFollow } from "./use_follow.ts";

interface Props {
  toolbarRef: Ref<HTMLDivElement>;
  boxRef: Ref<HTMLInputElement>;
  search: Search;
  view: TurnsViewState;
  change: (changes: Partial<TurnsViewState>) => void;
  turns: number;
  /** null: the rollout has ended. */
  follow: ReturnType<typeof useFollow> | null;
  onHelp: () => void;
}

export function TurnsToolbar({ toolbarRef, boxRef, search, view, change, turns, follow, onHelp }: Props) {
  return (
    <div ref={toolbarRef} className={styles.toolbar} role="toolbar" aria-label="Turns">
      <SearchBox search={search} inputRef={boxRef} onText={(find) => change({ find })} />
      <ShownParts hide={view.hide} onChange={(hide) => change({ hide })} />
      <Group gap="xs" ml="auto">
        {follow && (
          <Switch
            size="xs"
            label="Follow"
            checked={follow.isFollowing}
            onChange={({ currentTarget }) => follow.set(currentTarget.checked)}
          />
        )}
        <Text size="xs" c="dimmed">{turns.toLocaleString("en-US")} {turns === 1 ? "turn" : "turns"}</Text>
        <Tooltip label="Keys ( ? )">
          <ActionIcon variant="subtle" color="gray" size="sm" aria-label="Keys" onClick={onHelp}>
            <IconKeyboard size={16} />
          </ActionIcon>
        </Tooltip>
      </Group>
      <CurrentMatch search={search} />
    </div>
  );
}
