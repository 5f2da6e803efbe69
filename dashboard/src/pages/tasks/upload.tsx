import {
  Alert,
  Autocomplete,
  Button,
  Code,
  FileInput,
  Group,
  List,
  Modal,
  Progress,
  Stack,
  Table,
  Text,
} from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { type Entry, knownTasks, type Problem, taskId, type Uploaded, uploadTasks } from "@/api/tasks.ts";
import { plain } from "@/components/agent_text.tsx";
import { refresher } from "@/live/query.ts";
import { bytes } from "@/view/format.ts";
import { MAX_BYTES, type Parsed, parseTasks, shownField } from "./parse.ts";

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
  const [sent, setSent] = useState<{ count: number; of: number } | null>(null);
  const [outcome, setOutcome] = useState<Uploaded | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  // Uploading again after a lost answer makes no task twice.
  const key = useRef("");

  useEffect(() => {
    key.current = crypto.randomUUID();
    setParsed(null);
    setOutcome(null);
    setFailure(null);
    setSent(null);
    if (!file) return;
    let isLatest = true;
    void read(file).then((found) => isLatest && setParsed(found));
    return () => {
      isLatest = false;
    };
  }, [file, environment]);

  const usual = environment.trim() || parsed?.environment || null;
  const upload = async (entries: Entry[], before: Uploaded | null) => {
    setSent({ count: 0, of: entries.length });
    setFailure(null);
    try {
      const now = await uploadTasks(
        entries,
        usual,
        crypto.randomUUID(),
        (count) => setSent({ count, of: entries.length }),
      );
      setOutcome({
        ...now,
        written: now.written + (before?.written ?? 0),
        problems: [...before?.problems ?? [], ...now.problems],
      });
      refresher.everything();
    } catch (error) {
      setFailure((error as Error).message);
    } finally {
      setSent(null);
    }
  };

  const entries = outcome ? outcome.left : parsed?.entries ?? [];
  const problems = [...parsed?.problems ?? [], ...outcome?.problems ?? []];
  return (
    <Stack>
      <FileInput
        label="File"
        description='A JSON list, [{"id": …, "task": …, "answer": …}], or such an object in each line (JSONL)'
        accept=".json,.jsonl,.ndjson,application/json"
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
      <Problems problems={problems} left={entries.length} isSent={outcome !== null} />
      {parsed && !outcome && entries.length > 0 && <Preview entries={entries} usual={usual} />}
      {sent && <Progress value={(100 * sent.count) / sent.of} aria-label={`${sent.count} of ${sent.of} sent`} />}
      {failure && (
        <Alert color="red" role="alert" title="The upload stopped">
          {failure} What was written stays; uploading again goes on.
        </Alert>
      )}
      {outcome && outcome.written > 0 && (
        <Alert color="green" role="status" title={`${outcome.written.toLocaleString("en-US")} written`} />
      )}
      <Group justify="flex-end">
        <Button variant="default" onClick={onClose}>{outcome ? "Close" : "Cancel"}</Button>
        {(!outcome || entries.length > 0) && (
          <Button
            disabled={entries.length === 0 || sent !== null}
            onClick={() => void upload(entries, outcome)}
          >
            {entries.length === 0
              ? "Upload"
              : `Upload ${outcome ? "the other " : ""}${entries.length.toLocaleString("en-US")} ${
                entries.length === 1 ? "task" : "tasks"
              }`}
          </Button>
        )}
      </Group>
    </Stack>
  );
}

async function read(file: File): Promise<Parsed> {
  if (file.size > MAX_BYTES) {
    const message = `The file has ${bytes(file.size)}; at most ${bytes(MAX_BYTES)} are possible. Split it.`;
    return { entries: [], environment: null, problems: [{ place: null, field: null, message }] };
  }
  return parseTasks(await file.text());
}

/** Every entry that is not taken, by its place and field. */
function Problems({ problems, left, isSent }: { problems: Problem[]; left: number; isSent: boolean }) {
  if (problems.length === 0) return null;
  const wrong = new Set(problems.map(({ place }) => place));
  const title = wrong.has(null)
    ? "This file cannot be taken"
    : `${wrong.size.toLocaleString("en-US")} ${wrong.size === 1 ? "entry is" : "entries are"} wrong${
      isSent && left > 0 ? ", so that those with it were not written yet" : ""
    }`;
  return (
    <Alert color={wrong.has(null) ? "red" : "orange"} role="alert" title={title}>
      {!wrong.has(null) && <Text size="sm">Entries are counted from 0.</Text>}
      <List size="sm" aria-label="Problems">
        {problems.slice(0, LISTED_PROBLEMS).map(({ place, field, message }, index) => (
          <List.Item key={index}>
            {place !== null && `Entry ${place}: `}
            {field !== null && <Code>{plain(field)}</Code>} {plain(message)}
          </List.Item>
        ))}
      </List>
      {problems.length > LISTED_PROBLEMS && <Text size="sm">and {problems.length - LISTED_PROBLEMS} more</Text>}
    </Alert>
  );
}

function Preview({ entries, usual }: { entries: Entry[]; usual: string | null }) {
  const known = useKnown(entries, usual);
  return (
    <Stack gap={4}>
      <Text size="sm" role="status">
        {entries.length.toLocaleString("en-US")} {entries.length === 1 ? "entry" : "entries"}
        {known !== null && `: ${entries.length - known} new, ${known} already there and changed`}.
        {entries.length > PREVIEWED && ` The first ${PREVIEWED}:`}
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
            {entries.slice(0, PREVIEWED).map(({ place, value }) => (
              <Table.Tr key={place}>
                <Table.Td>{cut(shownField(value, "id", "external_id"))}</Table.Td>
                <Table.Td>{cut(shownField(value, "environment") ?? usual)}</Table.Td>
                <Table.Td>
                  <Text size="sm" lineClamp={2}>{cut(shownField(value, "task", "description"))}</Text>
                </Table.Td>
                <Table.Td>
                  <Text size="sm" lineClamp={2}>{cut(shownField(value, "answer", "expected_answer"))}</Text>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Stack>
  );
}

function cut(text: string | null): string | null {
  return text === null ? null : plain(text.slice(0, 300));
}

/** How many of the entries are tasks already; null: not known yet, or too many to look up. */
function useKnown(entries: Entry[], usual: string | null): number | null {
  const [known, setKnown] = useState<number | null>(null);
  useEffect(() => {
    setKnown(null);
    if (entries.length > LOOKED_UP) return;
    const stop = new AbortController();
    const ids = entries.flatMap(({ value }) => {
      const id = shownField(value, "id", "external_id");
      return id === null ? [] : [taskId(shownField(value, "environment") ?? usual, id)];
    });
    Promise.all(ids).then((all) => knownTasks(all, stop.signal)).then((found) => setKnown(found.size), () => {});
    return () => stop.abort();
  }, [entries, usual]);
  return known;
}
