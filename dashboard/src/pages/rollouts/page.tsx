/** Rollouts of all runs: found by what is known of them and by what happened in them. */
import { Button, Code } from "@mantine/core";
import { useCallback, useMemo } from "react";
import { useAccess } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { PageHead } from "@/components/page.tsx";
import { Empty } from "@/components/states.tsx";
import { useView } from "@/view/url_state.ts";
import { CompareBar, useSelection } from "./compare_bar.tsx";
import { ExportMenu, ExportProgress, useExport } from "./export_menu.tsx";
import { Filters } from "./filters.tsx";
import { type News, useNews } from "./fresh.ts";
import { SearchProgress } from "./progress.tsx";
import { useSearch } from "./search.ts";
import { RolloutTable } from "./table.tsx";
import { CLEARED, countSet, DEFAULTS, filtersOf } from "./view.ts";
import styles from "./page.module.css";

export default function RolloutsPage() {
  const [view, change] = useView(DEFAULTS);
  const { person } = useAccess();
  const wanted = JSON.stringify(filtersOf(view));
  const filters = useMemo(() => JSON.parse(wanted), [wanted]);
  const [search, progress] = useSearch(filters, person?.id ?? null);
  const news = useNews(search, progress);
  const exporting = useExport(filters);
  const hold = useCallback((chosen: string[]) => change({ selected: chosen }), [change]);
  const [selected, select, toggle] = useSelection(view.selected, hold);
  const isEmpty = progress.rows.length === 0 && progress.state === "ended";

  return (
    <>
      <PageHead title="Rollouts" aside={<ExportMenu rows={progress.rows} exporting={exporting} />} />
      <Filters view={view} change={change} />
      <ExportProgress exporting={exporting} />
      <NewsBar news={news} />
      {progress.rows.length > 0 && (
        <RolloutTable
          label="Rollouts found"
          rows={progress.rows}
          find={filters.text ?? null}
          selected={selected}
          onSelect={toggle}
        />
      )}
      {isEmpty
        ? <NothingFound isFiltered={countSet(view) > 0} isVisitor={person === null} clear={() => change(CLEARED)} />
        : <SearchProgress search={search} progress={progress} />}
      <CompareBar selected={selected} clear={() => select([])} />
    </>
  );
}

function NewsBar({ news }: { news: News | null }) {
  const show = () => {
    news?.show();
    scrollTo({ top: 0 });
  };
  const text = news?.count === "some" ? "The list changed: show" : `${news?.count}${news?.isMore ? "+" : ""} new: show`;
  return (
    <div className={styles.news} role="status">
      {news && <Button size="compact-sm" radius="xl" onClick={show}>{text}</Button>}
    </div>
  );
}

function NothingFound({ isFiltered, isVisitor, clear }: {
  isFiltered: boolean;
  isVisitor: boolean;
  clear: () => void;
}) {
  if (isFiltered) {
    return (
      <Empty title="No rollout matches">
        <Button size="xs" variant="default" mt="xs" onClick={clear}>Clear filters</Button>
      </Empty>
    );
  }
  if (isVisitor) {
    return (
      <Empty title="No rollout is public">
        <SignInLink /> to see those of all runs.
      </Empty>
    );
  }
  return (
    <Empty title="No rollout is recorded yet">
      Record one with <Code>openmanus_rl.init(...)</Code> and{" "}
      <Code>run.rollout(...)</Code>, or see a whole run at work with{" "}
      <Code>openmanus-rl demo</Code>. It appears here by itself.
    </Empty>
  );
}
