import { Button, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { Link, useParams } from "react-router";
import { readTask, type Task, taskHistory, type Validator } from "@/api/tasks.ts";
import { AgentText, plain } from "@/components/agent_text.tsx";
import { Ago, PageHead, Section } from "@/components/page.tsx";
import { Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { ByCheckpoint, ByRun, OverTime } from "./history.tsx";
import { NewestRollouts } from "./rollouts.tsx";

/** One task: what is asked, how it is checked, and how agents do on it over time. */
export default function TaskPage() {
  const { taskId = "" } = useParams();
  const task = useLive("*", ["task", taskId], (signal) => readTask(taskId, signal));
  const history = useLive("*", ["task-history", taskId], (signal) => taskHistory(taskId, signal));
  return (
    <Found query={task} what="Loading the task">
      {(found) => (
        <>
          <PageHead
            title={title(found)}
            crumbs={[{ label: "Tasks", to: "/tasks" }]}
            aside={
              <Button component={Link} to={`/rollouts?task=${found.id}`} variant="default" size="xs">
                All its rollouts
              </Button>
            }
          >
            <Facts task={found} />
          </PageHead>
          <Stack>
            <SimpleGrid cols={{ base: 1, md: 2 }}>
              <Asked task={found} />
              <Checked validators={found.validators} />
            </SimpleGrid>
            <Found query={history} what="Loading its history">
              {(known) => (
                <>
                  <OverTime history={known} />
                  <SimpleGrid cols={{ base: 1, lg: 2 }}>
                    <ByCheckpoint history={known} />
                    <ByRun history={known} taskId={found.id} />
                  </SimpleGrid>
                </>
              )}
            </Found>
            <NewestRollouts taskId={found.id} />
          </Stack>
        </>
      )}
    </Found>
  );
}

function title(task: Task): string {
  const text = plain(task.name ?? task.description);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}

function Facts({ task }: { task: Task }) {
  return (
    <Group gap="md" c="dimmed" fz="sm">
      {task.external_id !== null && <span>Id {plain(task.external_id)}</span>}
      {task.environment && <span>{plain(task.environment)}</span>}
      {task.split && <span>Split {plain(task.split)}</span>}
      <span>
        Changed <Ago time={task.updated_at} />
      </span>
    </Group>
  );
}

function Asked({ task }: { task: Task }) {
  return (
    <Section title="What is asked">
      <AgentText text={task.description} />
      {task.expected_answer !== null && (
        <>
          <Text size="sm" fw={600} mt="md" mb={4}>Expected answer</Text>
          <AgentText text={task.expected_answer} />
        </>
      )}
    </Section>
  );
}

function Checked({ validators }: { validators: Validator[] }) {
  return (
    <Section title="How it is checked">
      {validators.length === 0 && (
        <Text size="sm" c="dimmed">It has no validators: whoever records a rollout says whether it succeeded.</Text>
      )}
      <Stack gap="sm">
        {validators.map((validator) => (
          <div key={validator.id}>
            <Text size="sm">
              <b>{plain(validator.external_id)}</b> · {plain(validator.kind)}
            </Text>
            <AgentText text={JSON.stringify(validator.spec, null, 2)} />
          </div>
        ))}
      </Stack>
    </Section>
  );
}
