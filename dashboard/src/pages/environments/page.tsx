/** The environments, the latest change first. */
import { Badge, Button, Group, Select, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback, useInViewport } from "@mantine/hooks";
import { IconFileImport, IconPlus, IconSearch } from "@tabler/icons-react";
import { useMemo, useState } from "react";
import { Link, useNavigate } from "react-router";
import {
  type Environment,
  nextEnvironmentPage,
  readEnvironments,
  readPreview,
  TRAINING_KINDS,
} from "@/api/environments.ts";
import type { Place } from "@/api/paging.ts";
import { useAccess } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Ago, PageHead } from "@/components/page.tsx";
import { WriteButton } from "@/components/queue/write_button.tsx";
import { Empty, Failed, Loading } from "@/components/states.tsx";
import { useLive, useLivePages } from "@/live/query.ts";
import { useView } from "@/view/url_state.ts";
import classes from "../environment/environment.module.css";
import { readGrid } from "../environment/grid.ts";
import { GridPicture } from "../environment/grid_picture.tsx";
import { ImportDialog } from "./import_dialog.tsx";

const DEFAULTS = { search: "", kind: null as string | null };

export default function EnvironmentsPage() {
  const { person } = useAccess();
  if (person) return <Environments />;
  return (
    <>
      <PageHead title="Environments" />
      <Empty title="Environments are for members">
        <SignInLink /> to see them.
      </Empty>
    </>
  );
}

function Environments() {
  const navigate = useNavigate();
  const [view, change] = useView(DEFAULTS);
  const [importing, setImporting] = useState(false);
  const pages = useLivePages<Environment[], Place>(
    null,
    ["environments", view],
    (from, signal) => readEnvironments(view, from, signal),
    nextEnvironmentPage,
    { keep: true },
  );
  const environments = pages.data?.pages.flat();
  const aside = (
    <>
      <WriteButton
        variant="default"
        leftSection={<IconFileImport size={16} aria-hidden />}
        onClick={() => setImporting(true)}
      >
        Import
      </WriteButton>
      <WriteButton leftSection={<IconPlus size={16} aria-hidden />} onClick={() => void navigate("/environments/new")}>
        New environment
      </WriteButton>
    </>
  );
  return (
    <>
      <PageHead title="Environments" aside={aside} />
      <Filters view={view} change={change} />
      {!environments && (pages.error
        ? <Failed error={pages.error} retry={() => void pages.refetch()} />
        : <Loading what="Reading the environments" />)}
      {environments?.length === 0 && (
        <Nothing
          isFiltered={Boolean(view.search || view.kind)}
          clear={() => change(DEFAULTS)}
        />
      )}
      {environments && environments.length > 0 && (
        <>
          <ul className={classes.cards} aria-label="Environments">
            {environments.map((environment) => <Card key={environment.id} environment={environment} />)}
          </ul>
          {pages.hasNextPage && (
            <Group justify="center" my="md">
              <Button
                variant="default"
                loading={pages.isFetchingNextPage}
                onClick={() => void pages.fetchNextPage()}
              >
                Show more
              </Button>
            </Group>
          )}
        </>
      )}
      {importing && <ImportDialog onClose={() => setImporting(false)} />}
    </>
  );
}

function Filters({ view, change }: { view: typeof DEFAULTS; change: (changes: Partial<typeof DEFAULTS>) => void }) {
  const [text, setText] = useState(view.search);
  const search = useDebouncedCallback((value: string) => change({ search: value }), 250);
  const known: string[] = [...TRAINING_KINDS, "docker", "openenv", "process"];
  return (
    <Group mb="sm" gap="sm" align="flex-end" role="search" aria-label="Environments">
      <TextInput
        label="Search"
        type="search"
        placeholder="Name"
        leftSection={<IconSearch size={16} aria-hidden />}
        style={{ flex: "1 1 220px" }}
        value={text}
        onChange={({ currentTarget }) => {
          setText(currentTarget.value);
          search(currentTarget.value);
        }}
      />
      <Select
        label="Kind"
        placeholder="All"
        data={view.kind && !known.includes(view.kind) ? [...known, view.kind] : known}
        value={view.kind}
        onChange={(kind) => change({ kind })}
        clearable
        clearButtonProps={{ "aria-label": "Any kind" }}
        w={170}
      />
    </Group>
  );
}

function Nothing({ isFiltered, clear }: { isFiltered: boolean; clear: () => void }) {
  if (isFiltered) {
    return (
      <Empty title="No environment matches">
        <Button variant="default" size="xs" mt="xs" onClick={clear}>Clear the filters</Button>
      </Empty>
    );
  }
  return (
    <Empty title="No environments yet">
      <Link to="/environments/new">Draw a grid world</Link>,{" "}
      <Link to="/environments/new?kind=gymnasium">
        name one of Gymnasium
      </Link>, or import one from a paper. Runs can also train in any Gymnasium id without an entry here.
    </Empty>
  );
}

function Card({ environment }: { environment: Environment }) {
  return (
    <li>
      <Link className={classes.card} to={`/environments/${environment.id}`}>
        <div className={classes.shot}>
          {environment.kind === "grid" ? <Drawn spec={environment.spec} /> : <Stored environment={environment} />}
        </div>
        <div style={{ padding: "8px 10px", minWidth: 0 }}>
          <Group gap={6} wrap="nowrap" justify="space-between">
            <Text fw={550} size="sm" truncate title={plain(environment.name)}>{plain(environment.name)}</Text>
            {environment.is_draft && (
              <Badge size="sm" color="orange" variant="light" style={{ flex: "none" }}>draft</Badge>
            )}
          </Group>
          <Text size="xs" c="dimmed">
            {environment.kind ? plain(environment.kind) : "no kind"} · version {environment.version} ·{" "}
            <Ago time={environment.updated_at} />
          </Text>
          {environment.description && <Text size="xs" lineClamp={2} mt={2}>{plain(environment.description)}</Text>}
        </div>
      </Link>
    </li>
  );
}

function Drawn({ spec }: { spec: unknown }) {
  const { grid } = useMemo(() => readGrid(spec), [spec]);
  return grid ? <GridPicture grid={grid} /> : <NoPicture />;
}

/** Read when it comes into view: pictures may be large, and lists long. */
function Stored({ environment: { id, name, version, kind } }: { environment: Environment }) {
  const { ref, inViewport } = useInViewport<HTMLDivElement>();
  const [wasSeen, setSeen] = useState(false);
  if (inViewport && !wasSeen) setSeen(true);
  const { data } = useLive(null, ["preview", id, version], (signal) => readPreview(id, version, signal), {
    enabled: wasSeen && kind === "gymnasium",
  });
  return (
    <div ref={ref} style={{ height: "100%", display: "flex", alignItems: "center" }}>
      {data?.preview ? <img src={data.preview} alt={plain(name)} /> : <NoPicture />}
    </div>
  );
}

function NoPicture() {
  return <Text size="xs" c="dimmed">no picture</Text>;
}
