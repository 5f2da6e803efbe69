import "@mantine/core/styles.layer.css";
import "@mantine/notifications/styles.layer.css";
import "mantine-datatable/styles.layer.css";
import "uplot/dist/uPlot.min.css";
import "./styles.css";
import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import { AccessProvider } from "./auth/session.tsx";
import { StartupError } from "./components/states.tsx";
import { type Config, loadConfig } from "./config.ts";
import { queryClient } from "./live/query.ts";
import { connect } from "./supabase.ts";
import { theme, variables } from "./theme.ts";

function Dashboard({ config }: { config: Config }) {
  return (
    <QueryClientProvider client={queryClient}>
      <AccessProvider config={config}>
        <App />
      </AccessProvider>
    </QueryClientProvider>
  );
}

async function start(): Promise<void> {
  const root = createRoot(document.getElementById("root")!);
  const themed = (children: React.ReactNode) => (
    <MantineProvider theme={theme} cssVariablesResolver={variables} defaultColorScheme="auto">
      <Notifications />
      {children}
    </MantineProvider>
  );
  try {
    const config = await loadConfig();
    connect(config);
    root.render(themed(<Dashboard config={config} />));
  } catch (error) {
    root.render(themed(<StartupError error={error as Error} />));
  }
}

void start();
