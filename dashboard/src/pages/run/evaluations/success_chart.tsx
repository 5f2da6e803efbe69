import { useMemo } from "react";
import type { Evaluation } from "@/api/run_evaluations.ts";
import { Chart, type Line } from "@/components/chart/chart.tsx";
import { Section } from "@/components/page.tsx";
import { seriesColor } from "@/theme.ts";
import { percent } from "@/view/format.ts";

interface Props {
  evaluations: Evaluation[];
  baseline: Evaluation | null;
  onPick: (evaluationId: string) => void;
}

const GREY = "#7a8490";

/** Success rate over steps, a line for each name that comes again, and the baseline to beat. */
export function SuccessChart({ evaluations, baseline, onPick }: Props) {
  const measured = useMemo(
    () => evaluations.filter((one) => one.step !== null && one.success_rate !== null).sort((a, b) => a.step! - b.step!),
    [evaluations],
  );
  const lines = useMemo(() => linesOf(measured, baseline), [measured, baseline]);
  if (new Set(measured.map(({ step }) => step)).size < 2) return null;
  const pick = (step: number) => {
    const found = measured.findLast((one) => one.step === step && one.id !== baseline?.id);
    if (found) onPick(found.id);
  };
  return (
    <Section title="Success rate over steps">
      <Chart
        title="Success rate of evaluations over steps"
        lines={lines}
        height={220}
        yRange={[0, 1]}
        formatY={(value) => percent(value, 0)}
        onPick={pick}
      />
    </Section>
  );
}

function linesOf(measured: Evaluation[], baseline: Evaluation | null): Line[] {
  const byName = new Map<string, Evaluation[]>();
  const count = new Map<string | null, number>();
  measured.forEach(({ name }) => count.set(name, (count.get(name) ?? 0) + 1));
  for (const one of measured) {
    // A name that comes once names the step, not the tasks.
    const name = one.name && count.get(one.name)! > 1 ? one.name : "success rate";
    byName.set(name, [...(byName.get(name) ?? []), one]);
  }
  const lines: Line[] = [...byName].map(([label, members], place) => ({
    label,
    color: seriesColor(place),
    x: members.map(({ step }) => step!),
    y: members.map(({ success_rate }) => success_rate),
    points: true,
  }));
  const steps = measured.map(({ step }) => step!);
  if (baseline && baseline.success_rate !== null && steps.length) {
    const rate = baseline.success_rate;
    lines.push({
      label: "baseline",
      color: GREY,
      x: [steps[0]!, steps.at(-1)!],
      y: [rate, rate],
      dash: [6, 5],
      points: false,
    });
  }
  return lines;
}
