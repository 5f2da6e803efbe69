/** The members of the workspace, who is invited, and for admins everybody's keys. */
import { Button, Stack, Text } from "@mantine/core";
import { IconHistory, IconUserPlus } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "react-router";
import { type Invitation, type Member, nextMadePage, readInvitations, readMembers } from "@/api/members.ts";
import type { Place } from "@/api/paging.ts";
import { useAccess } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { KeyList } from "@/components/keys/list.tsx";
import { PageHead, Section } from "@/components/page.tsx";
import { type Secret, ShownOnce } from "@/components/shown_once.tsx";
import { Empty, Found, FoundPages } from "@/components/states.tsx";
import { useLive, useLivePages } from "@/live/query.ts";
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
          <SignInLink /> to see them.
        </Empty>
      )}
      {isInviting && <InviteDialog onClose={() => setInviting(false)} onInvited={setSecret} />}
      {secret && <ShownOnce secret={secret} onClose={() => setSecret(null)} />}
    </>
  );
}

function Workspace({ isAdmin, onSecret }: { isAdmin: boolean; onSecret: (secret: Secret) => void }) {
  const query = useLive(null, ["members"], readMembers);
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
  const pages = useLivePages<Invitation[], Place>(null, ["invitations"], readInvitations, nextMadePage);
  return (
    <Section title="Invitations">
      <FoundPages query={pages} what="Reading the invitations">
        {(invitations) =>
          invitations.length
            ? <InvitationTable invitations={invitations} onSecret={onSecret} />
            : <Text size="sm" c="dimmed">Nobody is invited just now. An invitation is a link that works once.</Text>}
      </FoundPages>
    </Section>
  );
}

function KeysOfAll({ members }: { members: Member[] }) {
  const names = new Map(members.map((member) => [member.user_id, nameOf(member)]));
  return (
    <Section title="Keys">
      <KeyList memberId={null} names={names}>
        <Text size="sm" c="dimmed">
          No member has a key that is active. Each makes their own on the page <Link to="/keys">Keys</Link>.
        </Text>
      </KeyList>
    </Section>
  );
}
