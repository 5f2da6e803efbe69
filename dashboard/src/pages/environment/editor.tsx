/** An environment as it is edited: what it is on one side, what it looks like on the other. */
import {
  Alert,
  Autocomplete,
  Button,
  Group,
  List,
  SegmentedControl,
  Stack,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useEffect, useMemo, useRef, useState } from "react";
import type { Json } from "@/database.ts";
import { plain } from "@/components/agent_text.tsx";
import classes from "./environment.module.css";
import { type Grid, readGrid } from "./grid.ts";
import { elsewhere, GridPicture } from "./grid_picture.tsx";
import { checkGymnasium } from "./gymnasium.ts";
import { type Brush, BRUSHES, paint } from "./paint.ts";
import type { Fields, Problem } from "./problems.ts";
import { parseSpec, specText } from "./spec_text.ts";

/** Ids that come with Gymnasium; any other can be typed. */
export const GYMNASIUM_IDS = [
  ...["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"],
  ...["FrozenLake-v1", "Taxi-v3", "CliffWalking-v1", "Blackjack-v1", "LunarLander-v3", "BipedalWalker-v3"],
  ...["CarRacing-v3", "HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5"],
];

/** What is wrong with a spec of a kind; of kinds that are not for training nothing is known here. */
export function problemsOf(kind: string | null, spec: Fields | null): Problem[] {
  if (!spec) return [];
  return kind === "grid" ? readGrid(spec).problems : kind === "gymnasium" ? checkGymnasium(spec) : [];
}

interface Props {
  kind: string | null;
  text: string;
  change: (text: string) => void;
  isReadOnly?: boolean;
  /** What is shown beside the spec where it is not drawn from it. */
  children?: React.ReactNode;
}

export function SpecEditor(props: Props) {
  const { kind, text } = props;
  const { spec, error } = useMemo(() => parseSpec(text), [text]);
  const problems = useMemo(() => problemsOf(kind, spec), [kind, spec]);
  return (
    <div className={classes.beside}>
      <Stack gap="sm">
        {kind === "gymnasium" && <GymnasiumFields {...props} spec={spec} problems={problems} />}
        <Textarea
          label={kind === "gymnasium" ? "All of it as JSON" : "Spec as JSON"}
          className={classes.code}
          rows={kind === "gymnasium" ? 10 : 20}
          value={text}
          onChange={({ currentTarget }) => props.change(currentTarget.value)}
          error={error}
          readOnly={props.isReadOnly}
          spellCheck={false}
        />
        <Problems problems={problems} />
      </Stack>
      {kind === "grid" ? <Drawing {...props} spec={spec} /> : <div>{props.children}</div>}
    </div>
  );
}

const LISTED = 12;

function Problems({ problems }: { problems: Problem[] }) {
  if (problems.length === 0) return null;
  return (
    <Alert color="orange" role="status" title={problems.length === 1 ? "One problem" : `${problems.length} problems`}>
      <List size="sm" withPadding={false} listStyleType="none">
        {problems.slice(0, LISTED).map(({ field, message }, place) => (
          <List.Item key={place}>
            <b className="om-mono">{plain(field)}</b> {plain(message)}
          </List.Item>
        ))}
        {problems.length > LISTED && <List.Item>and {problems.length - LISTED} more</List.Item>}
      </List>
    </Alert>
  );
}

interface WithSpec extends Props {
  spec: Fields | null;
}

/** The grid, which follows every edit, and can be edited by pointing at it. */
function Drawing({ spec, change, isReadOnly }: WithSpec) {
  const [brush, setBrush] = useState<Brush>("wall");
  const drawn = useMemo(() => spec && readGrid(spec).grid, [spec]);
  // While a text is not JSON, the last grid stays.
  const last = useRef<Grid | null>(null);
  useEffect(() => {
    if (drawn) last.current = drawn;
  }, [drawn]);
  const grid = drawn ?? last.current;
  if (!grid) return <Text size="sm" c="dimmed">Give a map, or a size, and the grid is drawn here.</Text>;
  const rest = elsewhere(grid);
  const canPaint = !isReadOnly && spec !== null && drawn !== null;
  return (
    <div>
      {!isReadOnly && (
        <Group gap={6} mb="xs">
          <Text size="sm" c="dimmed">Click a cell to set</Text>
          <SegmentedControl
            size="xs"
            aria-label="What a click on a cell sets"
            data={BRUSHES.map((name) => ({ value: name, label: name }))}
            value={brush}
            onChange={(value) => setBrush(value as Brush)}
            style={{ maxWidth: "100%", overflowX: "auto" }}
          />
        </Group>
      )}
      <GridPicture
        grid={grid}
        onPick={canPaint ? (cell) => change(specText(paint(spec, cell, brush))) : undefined}
      />
      <Text size="xs" c="dimmed" mt={4}>
        {grid.width} × {grid.height} cells{rest.length > 0 && `; at random cells: ${rest.join(", ")}`}
        {!drawn && "; as it was before the last edit"}
      </Text>
    </div>
  );
}

function GymnasiumFields({ spec, change, problems, isReadOnly }: WithSpec & { problems: Problem[] }) {
  const set = (field: string, value: Json | undefined) => {
    const { [field]: _before, ...rest } = spec ?? {};
    change(specText(value === undefined ? rest : { [field]: value, ...rest }));
  };
  const problem = (field: string) => problems.find((each) => each.field === field)?.message;
  const textOf = (field: string) => typeof spec?.[field] === "string" ? spec[field] as string : "";
  return (
    <>
      <Group gap="sm" grow align="flex-start">
        <Autocomplete
          label="Id"
          description="Registered with Gymnasium; module:id imports the module first."
          data={GYMNASIUM_IDS}
          value={textOf("id")}
          onChange={(value) => set("id", value || undefined)}
          error={problem("id")}
          readOnly={isReadOnly || spec === null}
        />
        <TextInput
          label="Or entry point"
          description="What makes the environment, as module:attribute."
          value={textOf("entry_point")}
          onChange={({ currentTarget }) => set("entry_point", currentTarget.value || undefined)}
          error={problem("entry_point")}
          readOnly={isReadOnly || spec === null}
        />
      </Group>
      <JsonField label="Arguments" field="arguments" spec={spec} set={set} isReadOnly={isReadOnly} />
      <JsonField label="Wrappers, from the inside out" field="wrappers" spec={spec} set={set} isReadOnly={isReadOnly} />
    </>
  );
}

interface JsonFieldProps {
  label: string;
  field: string;
  spec: Fields | null;
  set: (field: string, value: Json | undefined) => void;
  isReadOnly?: boolean;
}

/** A part of the spec as a text of its own, which is taken over when it is JSON. */
function JsonField({ label, field, spec, set, isReadOnly }: JsonFieldProps) {
  const given = spec?.[field];
  const shown = given === undefined ? "" : specText(given);
  const [text, setText] = useState(shown);
  const [error, setError] = useState<string | null>(null);
  const own = useRef(shown);
  useEffect(() => {
    if (shown === own.current) return;
    own.current = shown;
    setText(shown);
    setError(null);
  }, [shown]);
  const edit = (value: string) => {
    setText(value);
    try {
      const parsed = value.trim() ? JSON.parse(value) as Json : undefined;
      own.current = parsed === undefined ? "" : specText(parsed);
      setError(null);
      set(field, parsed);
    } catch (problem) {
      setError((problem as Error).message);
    }
  };
  return (
    <Textarea
      label={label}
      className={classes.code}
      rows={3}
      value={text}
      onChange={({ currentTarget }) => edit(currentTarget.value)}
      error={error}
      readOnly={isReadOnly || spec === null}
      spellCheck={false}
    />
  );
}

export function SaveBar({ whyNot, isDirty, isSaving, save, reset, label }: {
  whyNot: string | null;
  isDirty: boolean;
  isSaving: boolean;
  save: () => void;
  reset: () => void;
  label: string;
}) {
  return (
    <Group gap="sm" mt="md">
      <Button onClick={save} loading={isSaving} disabled={!isDirty || whyNot !== null}>{label}</Button>
      <Button variant="default" onClick={reset} disabled={!isDirty}>Undo the edits</Button>
      {isDirty && whyNot && <Text size="sm" c="dimmed">{whyNot}</Text>}
    </Group>
  );
}
