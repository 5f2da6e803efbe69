/** The frame of every page: where one is, where one can go, who one is. */
import {
  ActionIcon,
  Alert,
  Anchor,
  AppShell,
  Burger,
  Button,
  Group,
  Menu,
  NavLink,
  Text,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure, useDocumentTitle } from "@mantine/hooks";
import {
  IconAdjustments,
  IconChartLine,
  IconListDetails,
  IconMap2,
  IconMoon,
  IconPlayerPlay,
  IconRocket,
  IconStack2,
  IconSun,
  IconTarget,
  IconUser,
  IconUsers,
} from "@tabler/icons-react";
import { Suspense } from "react";
import { Link, Outlet, useLocation } from "react-router";
import { NotAMember } from "@/auth/sign_in.tsx";
import { useAccess } from "@/auth/session.tsx";
import { SignInLink, useCameFrom } from "@/auth/sign_in_link.tsx";
import { LiveIndicator } from "@/live/indicator.tsx";
import { supabase } from "@/supabase.ts";
import { Boundary, Loading } from "./states.tsx";

const PLACES = [
  { to: "/runs", label: "Runs", icon: IconChartLine },
  { to: "/rollouts", label: "Rollouts", icon: IconListDetails },
  { to: "/tasks", label: "Tasks", icon: IconTarget },
  { to: "/queue", label: "Queue", icon: IconPlayerPlay },
  { to: "/environments", label: "Environments", icon: IconMap2 },
  { to: "/sweeps", label: "Sweeps", icon: IconAdjustments },
  { to: "/jobs", label: "Jobs", icon: IconRocket },
  { to: "/members", label: "Members", icon: IconUsers },
];

export function Shell() {
  const [isOpen, { toggle, close }] = useDisclosure(false);
  const { pathname } = useLocation();
  const { person } = useAccess();
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 184, breakpoint: "sm", collapsed: { mobile: !isOpen } }}
      padding="md"
    >
      <a
        className="om-skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        Skip to the content
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="xs" wrap="nowrap">
            <Burger
              opened={isOpen}
              onClick={toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={isOpen ? "Close the menu" : "Open the menu"}
            />
            <Anchor component={Link} to="/runs" underline="never" c="inherit">
              <Group gap={6} wrap="nowrap">
                <IconStack2 size={20} aria-hidden />
                <Text fw={650}>OpenManus-RL</Text>
              </Group>
            </Anchor>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <LiveIndicator />
            <SchemeSwitch />
            <PersonMenu />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Pages">
        {PLACES.map(({ to, label, icon: Icon }) => (
          <NavLink
            key={to}
            component={Link}
            to={to}
            label={label}
            leftSection={<Icon size={18} aria-hidden />}
            onClick={close}
            active={pathname.startsWith(to)}
            aria-current={pathname.startsWith(to) ? "page" : undefined}
          />
        ))}
      </AppShell.Navbar>
      <NoTitle key={pathname} />
      <AppShell.Main id="main" tabIndex={-1} style={{ outline: "none" }}>
        {person ? <UnusedLink /> : <Visitor />}
        <Boundary resetKey={pathname}>
          <Suspense fallback={<Loading />}>
            <Outlet />
          </Suspense>
        </Boundary>
      </AppShell.Main>
    </AppShell>
  );
}

/** A page that has no title, or none yet, is not called as the one before it; the first child to say one comes after. */
function NoTitle() {
  useDocumentTitle("OpenManus-RL");
  return null;
}

function Visitor() {
  const { stranger } = useAccess();
  return (
    <Alert color={stranger ? "orange" : "gray"} variant="light" role="note" mb="md" py="xs">
      {stranger ? <NotAMember who={stranger} /> : "You are not signed in: only public runs are shown."} <SignInLink />
    </Alert>
  );
}

function UnusedLink() {
  const { linkError } = useAccess();
  return linkError && <Alert color="gray" variant="light" role="note" mb="md" py="xs">{linkError}</Alert>;
}

function SchemeSwitch() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const next = colorScheme === "auto" ? "light" : colorScheme === "light" ? "dark" : "auto";
  const label = `Colours: ${colorScheme === "auto" ? "as the system" : colorScheme}. Change to ${
    next === "auto" ? "the system's" : next
  }.`;
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      aria-label={label}
      title={label}
      onClick={() => setColorScheme(next)}
    >
      {colorScheme === "dark"
        ? <IconMoon size={18} />
        : <IconSun size={18} opacity={colorScheme === "auto" ? 0.6 : 1} />}
    </ActionIcon>
  );
}

function PersonMenu() {
  const { person } = useAccess();
  const cameFrom = useCameFrom();
  if (!person) {
    return <Button component={Link} to="/sign-in" state={cameFrom} size="compact-sm" variant="light">Sign in</Button>;
  }
  const name = person.name ?? person.email;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={`Signed in as ${name}`} title={`Signed in as ${name}`}>
          <IconUser size={18} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{name} · {person.role}</Menu.Label>
        <Menu.Item component={Link} to="/account">Account</Menu.Item>
        <Menu.Item component={Link} to="/keys">Keys</Menu.Item>
        <Menu.Item onClick={() => void supabase().auth.signOut({ scope: "local" })}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
