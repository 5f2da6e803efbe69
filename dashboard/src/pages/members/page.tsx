/** The members of the workspace, who is invited, and for admins everybody's keys. */
import { Button, Stack, Switch, Text } from "@mantine/core";
import { IconHistory, IconUserPlus } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";
import { type Member, readInvitations, readKeys, readMembers, stateOf } from "@/api/members.ts";
import { useAccess } from "@/auth/session.tsx";
import { KeyTable } from "@/components/keys/table.tsx";
import { PageHead, Section } from "@/components/page.tsx";
import { type Secret, ShownOnce } from "@/components/shown_once.tsx";
import { Empty, Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { number } from "@/view/format.ts";
import { InvitationTable } from "./invitations.tsx";
import { InviteDialog } from "./invite_dialog.tsx";
import { MemberTable, nameOf } from "./table.tsx";

export default function MembersPage() {
  const { person } = useAccess();
  const isAdmin = person?.role === "admin";
  const [isInviting, setInviting] = useState(false);
  const [secret, setSecret] = useState<Secret | null>(null);
  return (
    <>
      <PageHead
        title="Members"
        aside={isAdmin && (
          <>
            <Button
              size="xs"
              variant="default"
              component={Link}
              to="/members/log"
              leftSection={<IconHistory size={16} aria-hidden />}
            >
              Who did what
            </Button>
            <Button size="xs" leftSection={<IconUserPlus size={16} aria-hidden />} onClick={() => setInviting(true)}>
              Invite
            </Button>
          </>
        )}
      >
        <Text size="sm" c="dimmed">
          A viewer reads; an editor also records, and changes what is theirs; an admin changes everything.
        </Text>
      </PageHead>
      {person ? <Workspace isAdmin={isAdmin} onSecret={setSecret} /> : (
        <Empty title="Members are seen by members">
          <Link to="/sign-in">Sign in</Link> to see them.
        </Empty>
      )}
      {isInviting && <InviteDialog onClose={() => setInviting(false)} onInvited={setSecret} />}
      {secret && <ShownOnce secret={secret} onClose={() => setSecret(null)} />}
    </>
  );
}

function Workspace({ isAdmin, onSecret }: { isAdmin: boolean; onSecret: (secret: Secret) => void }) {
  const query = useLive("*", ["members"], readMembers);
  return (
    <Found query={query} what="Reading the members">
      {(members) => (
        <Stack gap="md">
          <Section title="Members" aside={<Text size="sm" c="dimmed">{number(members.length)}</Text>}>
            <MemberTable members={members} isAdmin={isAdmin} onSecret={onSecret} />
          </Section>
          {isAdmin && <Invitations onSecret={onSecret} />}
          {isAdmin && <KeysOfAll members={members} />}
        </Stack>
      )}
    </Found>
  );
}

function Invitations({ onSecret }: { onSecret: (secret: Secret) => void }) {
  const query = useLive("*", ["invitations"], readInvitations);
  return (
    <Section title="Invitations">
      <Found query={query} what="Reading the invitations">
        {(invitations) =>
          invitations.length
            ? <InvitationTable invitations={invitations} onSecret={onSecret} />
            : <Text size="sm" c="dimmed">Nobody is invited just now. An invitation is a link that works once.</Text>}
      </Found>
    </Section>
  );
}

function KeysOfAll({ members }: { members: Member[] }) {
  const query = useLive("*", ["keys", "all"], (signal) => readKeys(null, signal));
  const [withEnded, setWithEnded] = useState(false);
  const names = new Map(members.map((member) => [member.user_id, nameOf(member)]));
  return (
    <Section
      title="Keys"
      aside={
        <Switch
          size="xs"
          label="Also ended ones"
          checked={withEnded}
          onChange={({ currentTarget }) => setWithEnded(currentTarget.checked)}
        />
      }
    >
      <Found query={query} what="Reading the keys">
        {(keys) => {
          const shown = withEnded ? keys : keys.filter((key) => stateOf(key) === "active");
          return shown.length ? <KeyTable keys={shown} names={names} /> : (
            <Text size="sm" c="dimmed">
              No member has a key. Each makes their own on the page <Link to="/keys">Keys</Link>.
            </Text>
          );
        }}
      </Found>
    </Section>
  );
}
