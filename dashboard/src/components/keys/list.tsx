/** Keys page by page; those that have ended on request. */
import { Stack, Switch } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { type MemberKey, nextMadePage, readKeys } from "@/api/members.ts";
import type { Place } from "@/api/paging.ts";
import { FoundPages } from "@/components/states.tsx";
import { useLivePages } from "@/live/query.ts";
import { KeyTable } from "./table.tsx";

interface Props {
  /** null: those of all members. */
  memberId: string | null;
  names?: Map<string, string>;
  /** What is said where there is no key. */
  children: ReactNode;
}

export function KeyList({ memberId, names, children }: Props) {
  const [withEnded, setWithEnded] = useState(false);
  const filters = { memberId, withEnded };
  const pages = useLivePages<MemberKey[], Place>(
    null,
    ["keys", filters],
    (from, signal) => readKeys(filters, from, signal),
    nextMadePage,
    { keep: true },
  );
  return (
    <Stack gap="sm">
      <Switch
        size="xs"
        label="Also those that were revoked or have expired"
        checked={withEnded}
        onChange={({ currentTarget }) => setWithEnded(currentTarget.checked)}
      />
      <FoundPages query={pages} what="Reading the keys">
        {(keys) => keys.length ? <KeyTable keys={keys} names={names} /> : children}
      </FoundPages>
    </Stack>
  );
}
