import { Suspense } from "react";
import { BrowserRouter, Navigate, Route, Routes } from "react-router";
import { SignInPage } from "./auth/sign_in.tsx";
import { lazyPage } from "./components/lazy_page.ts";
import { Shell } from "./components/shell.tsx";
import { Boundary, Loading, NotFound } from "./components/states.tsx";

const RunsPage = lazyPage(() => import("./pages/runs/page.tsx"));
const ComparePage = lazyPage(() => import("./pages/compare/page.tsx"));
const RunPage = lazyPage(() => import("./pages/run/page.tsx"));
const StepPage = lazyPage(() => import("./pages/step/page.tsx"));
const GroupPage = lazyPage(() => import("./pages/group/page.tsx"));
const RolloutsPage = lazyPage(() => import("./pages/rollouts/page.tsx"));
const RolloutPage = lazyPage(() => import("./pages/rollout/page.tsx"));
const RolloutDifferencePage = lazyPage(() => import("./pages/rollout/difference_page.tsx"));
const TasksPage = lazyPage(() => import("./pages/tasks/page.tsx"));
const TaskPage = lazyPage(() => import("./pages/task/page.tsx"));
const QueuePage = lazyPage(() => import("./pages/queue/page.tsx"));
const WatchPage = lazyPage(() => import("./pages/watch/page.tsx"));
const NewRunPage = lazyPage(() => import("./pages/new_run/page.tsx"));
const EnvironmentsPage = lazyPage(() => import("./pages/environments/page.tsx"));
const EnvironmentPage = lazyPage(() => import("./pages/environment/page.tsx"));
const NewEnvironmentPage = lazyPage(() => import("./pages/environment/new_page.tsx"));
const JobsPage = lazyPage(() => import("./pages/jobs/page.tsx"));
const SweepsPage = lazyPage(() => import("./pages/sweeps/page.tsx"));
const NewSweepPage = lazyPage(() => import("./pages/new_sweep/page.tsx"));
const MembersPage = lazyPage(() => import("./pages/members/page.tsx"));
const LogPage = lazyPage(() => import("./pages/members/log_page.tsx"));
const KeysPage = lazyPage(() => import("./pages/keys/page.tsx"));
const AccountPage = lazyPage(() => import("./pages/account/page.tsx"));
const InvitationPage = lazyPage(() => import("./pages/invitation/page.tsx"));
const SweepPage = lazyPage(() => import("./pages/sweep/page.tsx"));

export function App() {
  // Where the dashboard lives: an export to another path says so in <base>.
  const base = new URL(document.baseURI).pathname.replace(/\/$/, "");
  return (
    <BrowserRouter basename={base}>
      <Routes>
        {/* Who comes by an invitation has no use for the other pages yet. */}
        <Route
          path="invitation"
          element={
            <Boundary>
              <Suspense fallback={<Loading />}>
                <InvitationPage />
              </Suspense>
            </Boundary>
          }
        />
        <Route element={<Shell />}>
          <Route index element={<Navigate to="/runs" replace />} />
          <Route path="sign-in" element={<SignInPage />} />
          <Route path="runs" element={<RunsPage />} />
          <Route path="runs/compare" element={<ComparePage />} />
          <Route path="runs/new" element={<NewRunPage />} />
          <Route path="runs/:runId" element={<RunPage />} />
          <Route path="runs/:runId/steps/:step" element={<StepPage />} />
          <Route path="groups/:groupId" element={<GroupPage />} />
          <Route path="rollouts" element={<RolloutsPage />} />
          <Route path="rollouts/:rolloutId" element={<RolloutPage />} />
          <Route path="rollouts/:rolloutId/against/:otherId" element={<RolloutDifferencePage />} />
          <Route path="tasks" element={<TasksPage />} />
          <Route path="tasks/:taskId" element={<TaskPage />} />
          <Route path="queue" element={<QueuePage />} />
          <Route path="queue/watch" element={<WatchPage />} />
          <Route path="environments" element={<EnvironmentsPage />} />
          <Route path="environments/new" element={<NewEnvironmentPage />} />
          <Route path="environments/:environmentId" element={<EnvironmentPage />} />
          <Route path="sweeps" element={<SweepsPage />} />
          <Route path="sweeps/new" element={<NewSweepPage />} />
          <Route path="sweeps/:sweepId" element={<SweepPage />} />
          <Route path="jobs" element={<JobsPage />} />
          <Route path="members" element={<MembersPage />} />
          <Route path="members/log" element={<LogPage />} />
          <Route path="keys" element={<KeysPage />} />
          <Route path="account" element={<AccountPage />} />
          <Route path="*" element={<NotFound />} />
        </Route>
      </Routes>
    </BrowserRouter>
  );
}
