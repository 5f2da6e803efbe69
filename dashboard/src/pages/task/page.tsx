import { Button, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconPlayerPlay } from "@tabler/icons-react";
import { useState } from "react";
import { Link, useParams } from "react-router";
import { readTask, type Task, taskHistory, type Validator } from "@/api/tasks.ts";
import { plain } from "@/components/agent_text.tsx";
import { Ago, PageHead, Section } from "@/components/page.tsx";
import { NewRollouts } from "@/components/queue/new_rollouts.tsx";
import { WriteButton } from "@/components/queue/write_button.tsx";
import { Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import { KnownText } from "@/pages/rollout/behind.tsx";
import { ByCheckpoint, ByRun, OverTime } from "./history.tsx";
import { ByAgent } from "./by_agent.tsx";
import { InTheQueue } from "./in_the_queue.tsx";
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
            aside={<Aside task={found} />}
          >
            <Facts task={found} />
          </PageHead>
          <Stack>
            <SimpleGrid cols={{ base: 1, md: 2 }}>
              <Asked task={found} />
              <Checked validators={found.validators} hasAnswer={found.expected_answer !== null} />
            </SimpleGrid>
            <InTheQueue taskId={found.id} />
            <ByAgent taskId={found.id} />
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

function Aside({ task }: { task: Task }) {
  const [requesting, setRequesting] = useState(false);
  return (
    <>
      <Button component={Link} to={`/rollouts?task=${task.id}`} variant="default" size="xs">
        All its rollouts
      </Button>
      <WriteButton
        size="xs"
        leftSection={<IconPlayerPlay size={14} aria-hidden />}
        onClick={() => setRequesting(true)}
      >
        New rollout
      </WriteButton>
      {requesting && (
        <NewRollouts
          tasks={[{ id: task.id, label: task.name ?? task.description }]}
          onClose={() => setRequesting(false)}
        />
      )}
    </>
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

/** Longer texts scroll, and leave room for the rest of the page. */
const TEXT_PIXELS = 260;

function Asked({ task }: { task: Task }) {
  return (
    <Section title="What is asked">
      <KnownText text={task.description} label="task" maxHeight={TEXT_PIXELS} />
      {task.expected_answer !== null && (
        <>
          <Text size="sm" fw={600} mt="md" mb={4}>Expected answer</Text>
          <KnownText text={task.expected_answer} label="expected answer" maxHeight={TEXT_PIXELS} />
        </>
      )}
    </Section>
  );
}

function Checked({ validators, hasAnswer }: { validators: Validator[]; hasAnswer: boolean }) {
  return (
    <Section title="How it is checked">
      {validators.length === 0 && (
        <Text size="sm" c="dimmed">
          {hasAnswer
            ? "It has no validators: the answer is compared with the expected one."
            : "It has no validators and no expected answer: a rollout of the queue ends as completed, unverified, and whoever records one says whether it succeeded."}
        </Text>
      )}
      <Stack gap="sm">
        {validators.map((validator) => (
          <div key={validator.id}>
            <Text size="sm">
              <b>{plain(validator.external_id)}</b> · {plain(validator.kind)}
            </Text>
            <KnownText
              text={JSON.stringify(validator.spec, null, 2)}
              label={`validator ${plain(validator.external_id)}`}
              maxHeight={TEXT_PIXELS}
            />
          </div>
        ))}
      </Stack>
    </Section>
  );
}
