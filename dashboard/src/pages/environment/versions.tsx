/** What an environment was before: its versions, the latest first. */
import { Anchor, Button, Collapse, Group, Text } from "@mantine/core";
import { useState } from "react";
import { type Environment, readVersions } from "@/api/environments.ts";
import { Ago, Section } from "@/components/page.tsx";
import { Found } from "@/components/states.tsx";
import { useLive } from "@/live/query.ts";
import classes from "./environment.module.css";
import { Preview } from "./preview.tsx";
import { specText } from "./spec_text.ts";

export function Versions({ environment, use }: { environment: Environment; use: ((spec: unknown) => void) | null }) {
  const query = useLive(
    null,
    ["environment versions", environment.id],
    (signal) => readVersions(environment.id, signal),
  );
  const [open, setOpen] = useState<number | null>(null);
  return (
    <Section title="Versions">
      <Found query={query} what="Reading the versions">
        {(versions) =>
          versions.map((each) => (
            <div key={each.version} style={{ borderTop: "1px solid var(--om-line)", padding: "6px 0" }}>
              <Group justify="space-between" gap="sm">
                <Anchor
                  component="button"
                  type="button"
                  size="sm"
                  aria-expanded={open === each.version}
                  onClick={() =>
                    setOpen(open === each.version ? null : each.version)}
                >
                  Version {each.version}
                  {each.version === environment.version && ", the present one"}
                </Anchor>
                <Text size="sm" c="dimmed">
                  {each.kind} · <Ago time={each.created_at} />
                </Text>
              </Group>
              <Collapse expanded={open === each.version}>
                {open === each.version && (
                  <div className={classes.beside} style={{ marginTop: 8 }}>
                    <div>
                      <pre className="om-agent-text" data-agent-text>{specText(each.spec)}</pre>
                      {use && each.version !== environment.version && each.kind === environment.kind && (
                        <Button
                          size="xs"
                          variant="default"
                          mt="xs"
                          onClick={() => use(each.spec)}
                        >
                          Edit from this version
                        </Button>
                      )}
                    </div>
                    <div>
                      <Preview of={{ ...each, id: environment.id, name: environment.name }} />
                    </div>
                  </div>
                )}
              </Collapse>
            </div>
          ))}
      </Found>
    </Section>
  );
}
