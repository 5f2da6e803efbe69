import { Button, Code, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconPlayerPlay, IconSearch, IconUpload } from "@tabler/icons-react";
import { DataTable } from "mantine-datatable";
import { useState } from "react";
import { Link } from "react-router";
import {
  type ListedTask,
  listTasks,
  type TaskCursor,
  taskFacets,
  type TaskFilters,
  type TaskPage,
} from "@/api/tasks.ts";
import { useAccess, useWhyNot } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { plain } from "@/components/agent_text.tsx";
import { Ago, PageHead } from "@/components/page.tsx";
import { NewRollouts } from "@/components/queue/new_rollouts.tsx";
import { WriteButton } from "@/components/queue/write_button.tsx";
import { RateBar } from "@/components/rate.tsx";
import { Empty, Failed, Loading } from "@/components/states.tsx";
import { useLive, useLivePages } from "@/live/query.ts";
import { number, UNKNOWN } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { UploadDialog } from "./upload.tsx";

const DEFAULTS = { search: "", environment: null as string | null, split: null as string | null };

/** Every task, how agents do on it lately, and the way to bring in more. */
export default function TasksPage() {
  const { person } = useAccess();
  if (!person) return <SignInFirst />;
  return <Tasks />;
}

function SignInFirst() {
  return (
    <>
      <PageHead title="Tasks" />
      <Empty title="Tasks are for members">
        <SignInLink /> to see them. The rollouts of public runs are open to everyone.
      </Empty>
    </>
  );
}

function Tasks() {
  const [view, change] = useView(DEFAULTS);
  const [uploading, setUploading] = useState(false);
  const [chosen, setChosen] = useState<ListedTask[]>([]);
  const [requesting, setRequesting] = useState(false);
  const facets = useLive("*", ["task-facets"], taskFacets);
  const filters: TaskFilters = Object.fromEntries(Object.entries(view).filter(([, value]) => value));
  const pages = useLivePages<TaskPage, TaskCursor>(
    "*",
    ["tasks", filters],
    (after, signal) => listTasks(filters, after, signal),
    (page) => page.next,
    { keep: true },
  );
  const tasks = pages.data?.pages.flatMap((page) => page.tasks);
  const aside = (
    <>
      <WriteButton
        variant="default"
        leftSection={<IconUpload size={16} aria-hidden />}
        onClick={() => setUploading(true)}
      >
        Upload tasks
      </WriteButton>
      <WriteButton
        leftSection={<IconPlayerPlay size={16} aria-hidden />}
        whyNot={chosen.length === 0 ? "Select tasks in the list first." : null}
        onClick={() => setRequesting(true)}
      >
        {chosen.length < 2 ? "New rollout" : `New rollouts of ${number(chosen.length)} tasks`}
      </WriteButton>
    </>
  );

  return (
    <>
      <PageHead title="Tasks" aside={aside} />
      <Filters
        view={view}
        change={change}
        environments={facets.data?.environments ?? []}
        splits={facets.data?.splits ?? []}
      />
      {pages.error && !tasks && <Failed error={pages.error} retry={() => void pages.refetch()} />}
      {!pages.error && !tasks && <Loading what="Loading tasks" />}
      {tasks && tasks.length === 0 && (
        <Nothing
          isFiltered={Object.keys(filters).length > 0}
          clear={() => change(DEFAULTS)}
        />
      )}
      {tasks && tasks.length > 0 && (
        <>
          <TaskTable tasks={tasks} chosen={chosen} choose={setChosen} />
          <Group justify="center" my="md">
            {pages.hasNextPage
              ? (
                <Button variant="default" loading={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
                  Show more
                </Button>
              )
              : (
                <Text size="sm" c="dimmed">
                  {tasks.length.toLocaleString("en-US")} {tasks.length === 1 ? "task" : "tasks"}
                </Text>
              )}
          </Group>
        </>
      )}
      {requesting && (
        <NewRollouts
          tasks={chosen.map(({ id, name, description }) => ({ id, label: name ?? description }))}
          onClose={() => setRequesting(false)}
        />
      )}
      <UploadDialog
        opened={uploading}
        onClose={() => setUploading(false)}
        environments={facets.data?.environments ?? []}
      />
    </>
  );
}

function Filters({ view, change, environments, splits }: {
  view: typeof DEFAULTS;
  change: (changes: Partial<typeof DEFAULTS>) => void;
  environments: string[];
  splits: string[];
}) {
  const [text, setText] = useState(view.search);
  const search = useDebouncedCallback((search: string) => change({ search }), 250);
  return (
    <Group mb="sm" gap="sm" align="flex-end" role="search">
      <TextInput
        label="Search"
        placeholder="In ids, names, descriptions"
        leftSection={<IconSearch size={16} aria-hidden />}
        style={{ flex: "1 1 220px" }}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          search(event.currentTarget.value);
        }}
      />
      <Select
        label="Environment"
        placeholder="All"
        data={environments}
        value={view.environment}
        onChange={(environment) => change({ environment })}
        clearable
        searchable
        w={190}
      />
      <Select
        label="Split"
        placeholder="All"
        data={splits}
        value={view.split}
        onChange={(split) => change({ split })}
        clearable
        w={130}
      />
    </Group>
  );
}

function Nothing({ isFiltered, clear }: { isFiltered: boolean; clear: () => void }) {
  if (isFiltered) {
    return (
      <Empty title="No task matches">
        <Button variant="default" size="xs" mt="xs" onClick={clear}>Clear the filters</Button>
      </Empty>
    );
  }
  return (
    <Empty title="No tasks yet">
      Upload a <Code>tasks.json</Code> such as{" "}
      <Code>{'[{"id": "1", "task": "find the red ball", "answer": "kitchen"}]'}</Code>, or import them in Python with
      {" "}
      <Code>TaskManager.import_tasks</Code>.
    </Empty>
  );
}

function TaskTable({ tasks, chosen, choose }: {
  tasks: ListedTask[];
  chosen: ListedTask[];
  choose: (tasks: ListedTask[]) => void;
}) {
  const mayAsk = useWhyNot() === null;
  return (
    <DataTable<ListedTask>
      records={tasks}
      selectedRecords={mayAsk ? chosen : undefined}
      onSelectedRecordsChange={mayAsk ? choose : undefined}
      allRecordsSelectionCheckboxProps={{ "aria-label": "Select all tasks that are listed" }}
      getRecordSelectionCheckboxProps={(task) => ({
        "aria-label": `Select ${plain(task.name ?? task.description).slice(0, 80)}`,
      })}
      withTableBorder
      highlightOnHover
      minHeight={0}
      aria-label="Tasks"
      columns={[
        {
          accessor: "description",
          title: "Task",
          // It takes the room that the others leave, however long its text is.
          cellsStyle: () => ({ width: "100%", maxWidth: 0, minWidth: 160 }),
          render: (task) => <TaskCell task={task} />,
        },
        {
          accessor: "environment",
          title: "Environment",
          render: (task) => task.environment && plain(task.environment),
          cellsStyle: () => ({ maxWidth: 200, whiteSpace: "nowrap", overflow: "hidden", textOverflow: "ellipsis" }),
          visibleMediaQuery: "(min-width: 48em)",
        },
        {
          accessor: "split",
          title: "Split",
          render: (task) => task.split && plain(task.split),
          visibleMediaQuery: "(min-width: 48em)",
        },
        {
          accessor: "success_rate",
          title: "Solved lately",
          width: 135,
          render: (task) => <RateBar rate={task.success_rate} part={task.solved} whole={task.completed} />,
        },
        {
          accessor: "mean_reward",
          title: "Mean reward",
          textAlign: "right",
          render: (task) => number(task.mean_reward),
          visibleMediaQuery: "(min-width: 62em)",
        },
        { accessor: "validators", title: "Validators", textAlign: "right", visibleMediaQuery: "(min-width: 62em)" },
        {
          accessor: "last_rollout_at",
          title: "Last rollout",
          render: (task) => (task.last_rollout_at ? <Ago time={task.last_rollout_at} /> : UNKNOWN),
          cellsStyle: () => ({ whiteSpace: "nowrap" }),
          visibleMediaQuery: "(min-width: 48em)",
        },
      ]}
    />
  );
}

function TaskCell({ task }: { task: ListedTask }) {
  return (
    <Stack gap={0}>
      <Link to={`/tasks/${task.id}`}>
        <Text span size="sm" lineClamp={2} dir="auto" ta="left">{plain(task.name ?? task.description)}</Text>
      </Link>
      <Text size="xs" c="dimmed" lineClamp={1}>
        {task.external_id !== null && plain(task.external_id)}
        {task.external_id !== null && task.name && " · "}
        {task.name && <bdi>{plain(task.description)}</bdi>}
      </Text>
    </Stack>
  );
}
