/** A list of rollouts of the queue, of which some can be chosen. */
import { Anchor, Checkbox, Table, Text, VisuallyHidden } from "@mantine/core";
import { Fragment, memo, type ReactNode } from "react";
import { Link } from "react-router";
import type { QueuedRollout } from "@/api/queue.ts";
import { plain } from "@/components/agent_text.tsx";
import { RolloutActions } from "@/components/queue/actions.tsx";
import type { Chosen } from "@/components/queue/selection.tsx";
import { ScrollTable } from "@/components/scroll_table.tsx";
import { agentAndModel } from "@/pages/rollouts/agent_and_model.ts";
import { shortId } from "@/view/format.ts";

export interface Column<Rollout> {
  title: string;
  cell: (rollout: Rollout, place: number) => ReactNode;
  /** Text, which takes the room that numbers leave; phones show it too. */
  isWide?: boolean;
  isNumber?: boolean;
  /** Phones have no room for it. */
  isExtra?: boolean;
}

/** What a list shows of rollouts. */
type Listed = Pick<QueuedRollout, "id" | "status" | "cancelling" | "owner_id">;

interface Props<Rollout> {
  label: string;
  /** The rollouts, where need be in groups that have a head. */
  groups: { key: string; head?: ReactNode; rollouts: Rollout[] }[];
  columns: Column<Rollout>[];
  chosen: Chosen;
}

const GROUP_COLOR = "var(--om-sunken)";

export function QueueTable<Rollout extends Listed>({ label, groups, columns, chosen }: Props<Rollout>) {
  const ids = groups.flatMap(({ rollouts }) => rollouts.map(({ id }) => id));
  return (
    <ScrollTable label={label} minWidth={320} maxHeight={480}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th w={34}>
            <SelectAll ids={ids} chosen={chosen} what={label.toLowerCase()} />
          </Table.Th>
          {columns.map((column) => <Table.Th key={column.title} {...styleOf(column)}>{column.title}</Table.Th>)}
          <Table.Th visibleFrom="sm">
            <VisuallyHidden>Actions</VisuallyHidden>
          </Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {groups.map(({ key, head, rollouts }) => (
          <Fragment key={key}>
            {head && (
              <Table.Tr bg={GROUP_COLOR}>
                <Table.Th colSpan={columns.length + 2} scope="rowgroup" py={4}>{head}</Table.Th>
              </Table.Tr>
            )}
            {rollouts.map((rollout, index) => (
              <Row
                key={rollout.id}
                rollout={rollout}
                place={index + 1}
                columns={columns}
                isChosen={chosen.ids.has(rollout.id)}
                toggle={chosen.toggle}
              />
            ))}
          </Fragment>
        ))}
      </Table.Tbody>
    </ScrollTable>
  );
}

function styleOf({ isWide, isNumber, isExtra }: Column<never>) {
  return {
    ta: isNumber ? "right" as const : undefined,
    visibleFrom: isExtra ? "sm" : undefined,
    // A long text in a table is cut only where its cell may not grow.
    ...(isWide ? { w: "100%", maw: 0 } : { style: { whiteSpace: "nowrap" } as const }),
  };
}

interface RowProps<Rollout> {
  rollout: Rollout;
  place: number;
  columns: Column<Rollout>[];
  isChosen: boolean;
  toggle: (id: string) => void;
}

// Of hundreds of rows few change at a time.
const Row = memo(function Row<Rollout extends Listed>(props: RowProps<Rollout>) {
  const { rollout, place, columns, isChosen, toggle } = props;
  return (
    <Table.Tr>
      <Table.Td>
        <Checkbox
          size="xs"
          checked={isChosen}
          onChange={() => toggle(rollout.id)}
          aria-label={`Select rollout ${shortId(rollout.id)}`}
        />
      </Table.Td>
      {columns.map((column) => (
        <Table.Td key={column.title} {...styleOf(column)}>{column.cell(rollout, place)}</Table.Td>
      ))}
      {/* On a phone whoever selects it gets the same button. */}
      <Table.Td ta="right" visibleFrom="sm">
        <RolloutActions rollouts={[rollout]} size="compact-xs" only={["cancel"]} />
      </Table.Td>
    </Table.Tr>
  );
}) as <Rollout extends Listed>(props: RowProps<Rollout>) => ReactNode;

type Told = Pick<
  QueuedRollout,
  "id" | "task_description" | "agent" | "model" | "environment" | "provider" | "attempt" | "max_attempts"
>;

/** What is asked, and below it of whom and where. */
export function RolloutCell({ rollout, why, children }: { rollout: Told; why?: string | null; children?: ReactNode }) {
  const { environment, provider, attempt, max_attempts } = rollout;
  const facts = [
    agentAndModel(rollout),
    environment !== "none" && (provider === "none" ? environment : `${environment} (${provider})`),
    (attempt > 1 || why) && `attempt ${attempt} of ${max_attempts}${why ? `: ${why}` : ""}`,
  ].filter(Boolean).join(" · ");
  return (
    <>
      <Anchor component={Link} to={`/rollouts/${rollout.id}`} size="sm" lineClamp={2} dir="auto" ta="left">
        {plain(rollout.task_description)}
      </Anchor>
      <Text size="xs" c="dimmed" truncate title={plain(facts)}>{plain(facts)}</Text>
      {children}
    </>
  );
}

function SelectAll({ ids, chosen, what }: { ids: string[]; chosen: Chosen; what: string }) {
  const count = ids.filter((id) => chosen.ids.has(id)).length;
  return (
    <Checkbox
      size="xs"
      checked={count > 0 && count === ids.length}
      indeterminate={count > 0 && count < ids.length}
      onChange={() => chosen.toggleAll(ids)}
      aria-label={`Select all ${what} rollouts that are listed`}
    />
  );
}
