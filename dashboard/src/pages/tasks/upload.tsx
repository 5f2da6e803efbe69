import {
  Alert,
  Autocomplete,
  Button,
  FileInput,
  Group,
  List,
  Modal,
  Progress,
  Stack,
  Table,
  Text,
} from "@mantine/core";
import { useEffect, useState } from "react";
import { knownTasks, type NewTask, type Refusal, writeTasks } from "@/api/tasks.ts";
import { plain } from "@/components/agent_text.tsx";
import { refresher } from "@/live/query.ts";
import { bytes } from "@/view/format.ts";
import { MAX_BYTES, type Parsed, parseTasks } from "./parse.ts";

const PREVIEWED = 20;
const LISTED_PROBLEMS = 50;
/** Beyond this many, looking each one up would take longer than writing it. */
const LOOKED_UP = 2_000;

interface Props {
  opened: boolean;
  onClose: () => void;
  environments: string[];
}

/** Choose a tasks.json, see what is in it, and bring it in. */
export function UploadDialog({ opened, onClose, environments }: Props) {
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title="Upload tasks"
      size="xl"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {opened && <Upload environments={environments} onClose={onClose} />}
    </Modal>
  );
}

function Upload({ environments, onClose }: { environments: string[]; onClose: () => void }) {
  const [file, setFile] = useState<File | null>(null);
  const [environment, setEnvironment] = useState("");
  const [parsed, setParsed] = useState<Parsed | null>(null);
  const [written, setWritten] = useState<number | null>(null);
  const [refused, setRefused] = useState<Refusal[] | null>(null);
  const [failure, setFailure] = useState<string | null>(null);

  useEffect(() => {
    setParsed(null);
    setRefused(null);
    setFailure(null);
    setWritten(null);
    if (!file) return;
    let isLatest = true;
    void read(file, environment.trim() || null).then((found) => isLatest && setParsed(found));
    return () => {
      isLatest = false;
    };
  }, [file, environment]);

  const upload = async (tasks: NewTask[]) => {
    setWritten(0);
    setFailure(null);
    try {
      setRefused(await writeTasks(tasks, setWritten));
      refresher.everything();
    } catch (error) {
      setFailure((error as Error).message);
      setWritten(null);
    }
  };

  const count = parsed?.tasks.length ?? 0;
  return (
    <Stack>
      <FileInput
        label="File"
        description='A JSON list: [{"id": …, "task": …, "answer": …}]'
        accept=".json,application/json"
        placeholder="Choose tasks.json"
        value={file}
        onChange={setFile}
        clearable
        data-autofocus
      />
      <Autocomplete
        label="Environment"
        description="Of entries that name none. A task is known again by its environment and id."
        data={environments}
        value={environment}
        onChange={setEnvironment}
      />
      {parsed && <Problems parsed={parsed} />}
      {parsed && count > 0 && <Preview tasks={parsed.tasks} />}
      {written !== null && (
        <Progress value={count ? (100 * written) / count : 0} aria-label={`${written} of ${count} written`} />
      )}
      {failure && (
        <Alert color="red" role="alert" title="The upload stopped">
          {failure} What was written stays; uploading again goes on.
        </Alert>
      )}
      {refused && <Outcome refused={refused} parsed={parsed!} />}
      <Group justify="flex-end">
        <Button variant="default" onClick={onClose}>{refused ? "Close" : "Cancel"}</Button>
        {!refused && (
          <Button disabled={count === 0 || written !== null} onClick={() => void upload(parsed!.tasks)}>
            {count === 0 ? "Upload" : `Upload ${count.toLocaleString("en-US")} ${count === 1 ? "task" : "tasks"}`}
          </Button>
        )}
      </Group>
    </Stack>
  );
}

async function read(file: File, environment: string | null): Promise<Parsed> {
  if (file.size > MAX_BYTES) {
    const message = `The file has ${bytes(file.size)}; at most ${bytes(MAX_BYTES)} are possible. Split it.`;
    return { tasks: [], entries: [], problems: [{ entry: null, message }] };
  }
  return await parseTasks(await file.text(), environment);
}

function Problems({ parsed: { problems, tasks } }: { parsed: Parsed }) {
  if (problems.length === 0) return null;
  const whole = problems[0]!.entry === null;
  const title = whole
    ? "This file cannot be taken"
    : `${problems.length} ${problems.length === 1 ? "entry is" : "entries are"} left out`;
  return (
    <Alert color={whole || tasks.length === 0 ? "red" : "orange"} role="alert" title={title}>
      <List size="sm" aria-label="Problems">
        {problems.slice(0, LISTED_PROBLEMS).map(({ entry, message }) => (
          <List.Item key={entry}>{entry === null ? message : `Entry ${entry + 1}: ${plain(message)}`}</List.Item>
        ))}
      </List>
      {problems.length > LISTED_PROBLEMS && <Text size="sm">and {problems.length - LISTED_PROBLEMS} more</Text>}
    </Alert>
  );
}

function Preview({ tasks }: { tasks: NewTask[] }) {
  const [known, setKnown] = useState<Set<string> | null>(null);
  useEffect(() => {
    setKnown(null);
    if (tasks.length > LOOKED_UP) return;
    const stop = new AbortController();
    knownTasks(tasks.map((task) => task.id), stop.signal).then(setKnown, () => {});
    return () => stop.abort();
  }, [tasks]);
  const changed = known && tasks.filter((task) => known.has(task.id)).length;
  return (
    <Stack gap={4}>
      <Text size="sm" role="status">
        {tasks.length.toLocaleString("en-US")} can be taken
        {changed !== null && `: ${tasks.length - changed} new, ${changed} already there and changed`}.
        {tasks.length > PREVIEWED && ` The first ${PREVIEWED}:`}
      </Text>
      <Table.ScrollContainer minWidth={480} mah={280}>
        <Table striped withTableBorder aria-label="Preview">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Id</Table.Th>
              <Table.Th>Environment</Table.Th>
              <Table.Th>Task</Table.Th>
              <Table.Th>Answer</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {tasks.slice(0, PREVIEWED).map((task) => (
              <Table.Tr key={task.id}>
                <Table.Td>{plain(task.external_id)}</Table.Td>
                <Table.Td>{task.environment && plain(task.environment)}</Table.Td>
                <Table.Td>
                  <Text size="sm" lineClamp={2}>{plain(task.description)}</Text>
                </Table.Td>
                <Table.Td>
                  <Text size="sm" lineClamp={2}>{task.expected_answer && plain(task.expected_answer)}</Text>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Stack>
  );
}

function Outcome({ refused, parsed }: { refused: Refusal[]; parsed: Parsed }) {
  const written = parsed.tasks.length - refused.length;
  return (
    <Alert
      color={refused.length ? "orange" : "green"}
      role="status"
      title={`${written.toLocaleString("en-US")} written`}
    >
      {refused.length > 0 && (
        <List size="sm">
          {refused.slice(0, LISTED_PROBLEMS).map(({ index, message }) => (
            <List.Item key={index}>Entry {parsed.entries[index]! + 1}: {plain(message)}</List.Item>
          ))}
        </List>
      )}
    </Alert>
  );
}
