/** What the list says when there is no run to show. */
import { Button, Code, Stack, Text } from "@mantine/core";
import { Link } from "react-router";
import { useAccess } from "@/auth/session.tsx";
import { SignInLink } from "@/auth/sign_in_link.tsx";
import { Empty } from "@/components/states.tsx";

const FIRST_RUN = `import openmanus_rl

with openmanus_rl.init(name="my first run", algorithm="grpo") as run:
    run.log({"loss": 0.5}, step=0)`;

export function NoRuns({ isFiltered, clear }: { isFiltered: boolean; clear: () => void }) {
  const { person } = useAccess();
  if (isFiltered) {
    return (
      <Empty title="No run matches">
        <Button variant="default" size="xs" mt="xs" onClick={clear}>Clear the filters</Button>
      </Empty>
    );
  }
  return person ? <NothingRecorded /> : <NothingPublic />;
}

function NothingRecorded() {
  return (
    <Empty title="No run has been recorded yet">
      <Stack gap="xs">
        <Text size="sm">
          Record a small one to look around: <Code>openmanus-rl demo</Code>
        </Text>
        <Text size="sm">
          Train one: <Link to="/runs/new">choose an environment and an algorithm</Link>
        </Text>
        <Text size="sm">Or record your own from Python:</Text>
        <Code block ta="left">{FIRST_RUN}</Code>
        <Text size="sm">It appears here by itself.</Text>
      </Stack>
    </Empty>
  );
}

function NothingPublic() {
  const { config } = useAccess();
  return (
    <Empty title="No run is public">
      {config.embedded
        ? (
          <>
            Sign in with the link that <Code>openmanus-rl dashboard</Code> prints on the machine where it runs.
          </>
        )
        : (
          <>
            <SignInLink /> to see the runs of your workspace.
          </>
        )}
      {config.embedded && (
        <>
          {" "}
          <SignInLink>More on signing in</SignInLink>
        </>
      )}
    </Empty>
  );
}
