import { useParams } from "react-router";
import { MetricCharts } from "./charts/metric_charts.tsx";

export default function Page() {
  const { runId = "" } = useParams();
  return <MetricCharts runs={[{ id: runId, name: "run", color: "#0a84a5" }]} />;
}
