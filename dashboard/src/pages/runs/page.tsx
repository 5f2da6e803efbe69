import { Anchor, Button, Group, Pagination, Text } from "@mantine/core";
import { IconArrowsDiff, IconPlus } from "@tabler/icons-react";
import { Link } from "react-router";
import { readRunFacets, readRuns, type RunFilters, type RunPage, RUNS_PER_PAGE, type RunSort } from "@/api/runs.ts";
import { useAccess } from "@/auth/session.tsx";
import { PageHead } from "@/components/page.tsx";
import { Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { number } from "@/view/format.ts";
import { useView } from "@/view/url_state.ts";
import { MOST_COMPARED } from "../compare/limits.ts";
import { ColumnMenu } from "./column_menu.tsx";
import { COLUMNS } from "./columns.tsx";
import { Filters } from "./filters.tsx";
import { NoRuns } from "./nothing.tsx";
import { useSelection } from "./selection.ts";
import { RunsTable } from "./table.tsx";
import { DEFAULT_VIEW, filtersOf, isFiltered, NO_FILTERS, type RunsView } from "./view.ts";

export default function RunsPage() {
  const [view, change] = useView(DEFAULT_VIEW);
  const filters = filtersOf(view);
  const sort = sortOf(view);
  const [selected, select] = useSelection(view.selected, (ids) => change({ selected: ids }));
  const page = Math.max(1, Math.floor(view.page));
  const list = useLive("*", ["runs", filters, sort, page], (signal) => readRuns(filters, sort, page, signal), {
    keep: true,
  });
  const facets = useLive("*", ["run_facets"], readRunFacets);
  const filter = (changes: Partial<RunFilters>) => change({ ...changes, page: 1 });
  const clear = () => filter(NO_FILTERS);
  const isNothing = list.data?.count === 0 && !isFiltered(filters);
  return (
    <>
      <PageHead
        title="Runs"
        aside={
          <>
            {!isNothing && (
              <>
                {isFiltered(filters) && list.data?.count !== 0 && (
                  <Button variant="default" size="xs" onClick={clear}>Clear the filters</Button>
                )}
                <Selection ids={selected} clear={() => select([])} />
                <ColumnMenu chosen={view.columns} change={(columns) => change({ columns })} />
              </>
            )}
            <NewRunLink />
          </>
        }
      />
      {!isNothing && <Filters filters={filters} facets={facets.data} change={filter} />}
      <Found query={list} what="Reading the runs">
        {(data) =>
          data.count === 0 ? <NoRuns isFiltered={isFiltered(filters)} clear={clear} /> : (
            <>
              <RunsTable
                runs={data.runs}
                columns={view.columns}
                sort={sort}
                onSort={({ column, direction }) => change({ sort: column, direction, page: 1 })}
                selected={selected}
                onSelect={select}
                isOld={list.isPlaceholderData}
              />
              <Pages data={data} change={(next) => change({ page: next }, { push: true })} />
            </>
          )}
      </Found>
    </>
  );
}

function NewRunLink() {
  const { person } = useAccess();
  if (!person || person.role === "viewer") return null;
  return (
    <Button component={Link} to="/runs/new" size="xs" leftSection={<IconPlus size={14} aria-hidden />}>New run</Button>
  );
}

/** The sort that the URL asks for, if there is a column for it. */
function sortOf(view: RunsView): RunSort {
  const isKnown = COLUMNS.some((column) => column.sort === view.sort);
  return { column: isKnown ? view.sort : DEFAULT_VIEW.sort, direction: view.direction === "asc" ? "asc" : "desc" };
}

function Pages({ data, change }: { data: RunPage; change: (page: number) => void }) {
  const pages = Math.ceil(data.count / RUNS_PER_PAGE);
  const first = (data.page - 1) * RUNS_PER_PAGE + 1;
  return (
    <Group justify="space-between" mt="xs" gap="xs">
      <Text size="sm" c="dimmed" role="status">
        {pages > 1
          ? `${number(first)} to ${number(first + data.runs.length - 1)} of ${number(data.count)} runs`
          : `${number(data.count)} ${data.count === 1 ? "run" : "runs"}`}
      </Text>
      {pages > 1 && (
        <Pagination
          component="nav"
          aria-label="Pages of runs"
          size="sm"
          siblings={1}
          total={pages}
          value={data.page}
          onChange={change}
          getItemProps={(page) => ({ "aria-label": `Page ${page}` })}
          getControlProps={(control) => ({ "aria-label": control === "next" ? "Next page" : "Previous page" })}
        />
      )}
    </Group>
  );
}

/** What is selected, on this page or elsewhere, and what can be done with it. */
function Selection({ ids, clear }: { ids: string[]; clear: () => void }) {
  const isTooMany = ids.length > MOST_COMPARED;
  const address = `/runs/compare?${new URLSearchParams(ids.map((id) => ["run", id]))}`;
  const label = `Compare (${ids.length})`;
  const icon = <IconArrowsDiff size={14} aria-hidden />;
  return (
    <>
      {ids.length > 0 && (
        <Text size="sm" c="dimmed" role="status">
          {ids.length} selected
          {isTooMany && ` (at most ${MOST_COMPARED} can be compared)`}
          {" · "}
          <Anchor component="button" type="button" size="sm" onClick={clear}>Select none</Anchor>
        </Text>
      )}
      {ids.length > 1 && !isTooMany
        ? <Button component={Link} to={address} size="xs" leftSection={icon}>{label}</Button>
        : (
          <Button size="xs" disabled leftSection={icon} title="Select two runs or more to compare them">
            {label}
          </Button>
        )}
    </>
  );
}
