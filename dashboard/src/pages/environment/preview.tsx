/** What a version of an environment looks like: drawn from its spec, or the picture that was stored of it. */
import { Code, Text } from "@mantine/core";
import { useMemo } from "react";
import { readPreview } from "@/api/environments.ts";
import { plain } from "@/components/agent_text.tsx";
import { useLive } from "@/live/query.ts";
import classes from "./environment.module.css";
import { readGrid } from "./grid.ts";
import { elsewhere, GridPicture } from "./grid_picture.tsx";

interface Version {
  id: string;
  name: string;
  version: number;
  kind: string | null;
  spec: unknown;
}

export function Preview({ of }: { of: Version }) {
  return of.kind === "grid" ? <GridPreview spec={of.spec} /> : <StoredPreview of={of} />;
}

function GridPreview({ spec }: { spec: unknown }) {
  const { grid } = useMemo(() => readGrid(spec), [spec]);
  if (!grid) return <Text size="sm" c="dimmed">There is nothing to draw in this spec.</Text>;
  const rest = elsewhere(grid);
  return (
    <>
      <GridPicture grid={grid} />
      {rest.length > 0 && <Text size="xs" c="dimmed" mt={4}>At random cells: {rest.join(", ")}</Text>}
    </>
  );
}

function StoredPreview({ of: { id, name, version, kind } }: { of: Version }) {
  const { data } = useLive(null, ["preview", id, version], (signal) => readPreview(id, version, signal));
  if (!data) return null;
  if (data.preview) {
    return <img className={classes.picture} src={data.preview} alt={`${plain(name)}, version ${version}`} />;
  }
  if (data.preview_error) {
    return <Text size="sm" c="dimmed">There is no picture: {plain(data.preview_error)}</Text>;
  }
  if (kind !== "gymnasium") return <Text size="sm" c="dimmed">Environments of this kind have no picture.</Text>;
  return (
    <Text size="sm" c="dimmed">
      No picture of version {version} yet. An orchestrator makes one, and so does{" "}
      <Code>openmanus-rl environments preview {plain(name)} --upload</Code> on a machine that has the environment.
    </Text>
  );
}
