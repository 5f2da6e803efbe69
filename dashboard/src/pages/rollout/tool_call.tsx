import { Group, Text } from "@mantine/core";
import { pretty, readToolInput, readToolOutput, type ToolCall } from "@/api/rollout.ts";
import { plain } from "@/components/agent_text.tsx";
import { StatusBadge } from "@/components/status.tsx";
import { duration } from "@/view/format.ts";
import { LongText, Part } from "./part.tsx";

const ONE_LINE_CHARS = 100;

/** Short inputs on one line, others as a tree. */
export function inputText(call: ToolCall): string {
  if (call.tool_input_cut) return String(call.tool_input);
  const line = typeof call.tool_input === "string" ? call.tool_input : JSON.stringify(call.tool_input);
  return line.length <= ONE_LINE_CHARS ? line : pretty(call.tool_input);
}

/** A tool that was called: with what, what it gave, how long it took. */
export function ToolCallPart({ call, find }: { call: ToolCall; find: string | null }) {
  const hasFailed = call.success === false;
  return (
    <Part label="Tool" kind={hasFailed ? "failed" : "tool"}>
      <Group gap="xs" mb={2}>
        <Text size="sm" fw={650} className="om-mono" component="span">{plain(call.tool_name)}</Text>
        {call.success !== null && <StatusBadge status={hasFailed ? "failed" : "success"} />}
        {call.execution_time_ms !== null && (
          <Text size="xs" c="dimmed" component="span">{duration(call.execution_time_ms)}</Text>
        )}
      </Group>
      {call.tool_input !== null && (
        <Labelled label="Input" field="tool_input">
          <LongText
            name={`${call.id}:input`}
            label={`input of ${call.tool_name}`}
            text={inputText(call)}
            chars={call.tool_input_cut ? call.tool_input_chars : undefined}
            find={find}
            readAll={() => readToolInput(call.id)}
          />
        </Labelled>
      )}
      {call.tool_output !== null && (
        <Labelled label="Output" field="tool_output">
          <LongText
            name={`${call.id}:output`}
            label={`output of ${call.tool_name}`}
            text={call.tool_output}
            chars={call.tool_output_chars}
            find={find}
            readAll={() => readToolOutput(call.id)}
          />
        </Labelled>
      )}
      {call.error_message && (
        <Labelled label="Error" field="error_message">
          <LongText name={`${call.id}:error`} label="error" text={call.error_message} find={find} />
        </Labelled>
      )}
    </Part>
  );
}

function Labelled({ label, field, children }: { label: string; field: string; children: React.ReactNode }) {
  return (
    <div data-field={field}>
      <Text size="xs" c="dimmed" mt={2}>{label}</Text>
      {children}
    </div>
  );
}
