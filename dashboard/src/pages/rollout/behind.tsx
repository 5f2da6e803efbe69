/** What lies behind a turn, read when one asks: the chat, the model's answer, its tokens, the environment's info. */
import { Badge, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { type Generation, type Json, pretty, readChat, readJson, readTokens, type Turn } from "@/api/rollout.ts";
import { AgentText, plain } from "@/components/agent_text.tsx";
import { Found } from "@/components/states.tsx";
import { number } from "@/view/format.ts";
import { mediaAt, MediaItem } from "./media.tsx";
import { OnDemand } from "./part.tsx";
import { TokenView } from "./tokens.tsx";

const SHOWN_CHARS = 8_000;
const SHOWN_MESSAGES = 200;

/** A text that is here already, shown by its beginning. */
export function KnownText({ text, label, maxHeight }: { text: string; label: string; maxHeight?: number }) {
  return (
    <AgentText
      text={text.slice(0, SHOWN_CHARS)}
      chars={text.length}
      readAll={() => Promise.resolve(text)}
      label={label}
      maxHeight={maxHeight}
    />
  );
}

/** What a turn holds does not change once it is written, so that it is read once. */
function Once<T>({ name, read, children }: {
  name: unknown[];
  read: () => Promise<T>;
  children: (data: T) => ReactNode;
}) {
  const query = useQuery<T, Error>({ queryKey: ["rollout", "part", ...name], queryFn: read });
  return <Found query={query}>{children}</Found>;
}

export function Chat({ turn }: { turn: Turn }) {
  return (
    <OnDemand name={`${turn.id}:chat`} label="chat">
      {() => (
        <Once name={["chat", turn.id]} read={() => readChat(turn.id)}>
          {(chat) => <Messages chat={Array.isArray(chat) ? chat : [chat]} />}
        </Once>
      )}
    </OnDemand>
  );
}

/** The last messages first in sight: a long chat begins with what earlier turns have shown. */
function Messages({ chat }: { chat: Json[] }) {
  const left = Math.max(0, chat.length - SHOWN_MESSAGES);
  return (
    <Stack gap={6}>
      {left > 0 && <Text size="sm" c="dimmed">{left} earlier messages are not shown; Raw JSON has them all.</Text>}
      {chat.slice(left).map((message, index) => <Message key={left + index} message={message} />)}
    </Stack>
  );
}

function Message({ message }: { message: Json }) {
  if (message === null) return <Text size="sm" c="dimmed">This message is missing.</Text>;
  const { role, content, ...rest } = typeof message === "object" && !Array.isArray(message)
    ? message
    : { role: null, content: message };
  const text = contentText(content);
  const others = Object.keys(rest).length ? pretty(rest as Json) : null;
  return (
    <div>
      <Badge variant="default" size="sm">{plain(typeof role === "string" ? role : "message")}</Badge>
      {text && <KnownText text={text} label="message" />}
      {others && <KnownText text={others} label="message" />}
      {picturesIn(text).map((path) => (
        <MediaItem
          key={path}
          media={mediaAt(path, "image")}
          label="image of the chat"
        />
      ))}
    </div>
  );
}

/** A message's content as one reads it: of parts, as model providers take them, their texts. */
function contentText(content: Json | undefined): string {
  if (content === undefined) return "";
  if (!Array.isArray(content)) return pretty(content);
  return content.map((part) => {
    const text = part !== null && typeof part === "object" && !Array.isArray(part) ? part.text : part;
    return typeof text === "string" ? text : pretty(part);
  }).join("\n");
}

const MOST_PICTURES = 10;

/** What the recorder took out of a message lies in storage; the message says where. */
function picturesIn(text: string): string[] {
  const found = text.matchAll(/storage:\/\/media\/([\w./-]+)/g);
  return [...new Set(Array.from(found, ([, path]) => path!))].slice(0, MOST_PICTURES);
}

export function ModelResponse({ turn }: { turn: Turn }) {
  return (
    <OnDemand name={`${turn.id}:response`} label="model response">
      {() => (
        <Once name={["response", turn.id]} read={() => readJson(turn.id, "model_response")}>
          {(response) => <KnownText text={pretty(response)} label="model response" />}
        </Once>
      )}
    </OnDemand>
  );
}

export function Info({ turn }: { turn: Turn }) {
  return (
    <OnDemand name={`${turn.id}:info`} label="info">
      {() =>
        turn.info_cut
          ? (
            <Once name={["info", turn.id]} read={() => readJson(turn.id, "info")}>
              {(info) => <KnownText text={pretty(info)} label="info" />}
            </Once>
          )
          : <KnownText text={pretty(turn.info)} label="info" />}
    </OnDemand>
  );
}

export function Generations({ turn }: { turn: Turn }) {
  return turn.generations.map((generation) => (
    <div key={generation.id}>
      <OnDemand
        name={`${generation.id}:tokens`}
        label={turn.generations.length > 1 ? `tokens of generation ${generation.position + 1}` : "tokens"}
      >
        {() => (
          <>
            <GenerationFacts generation={generation} />
            <Once name={["tokens", generation.id]} read={() => readTokens(generation.id)}>
              {(tokens) => <TokenView tokens={tokens} />}
            </Once>
          </>
        )}
      </OnDemand>
    </div>
  ));
}

function GenerationFacts({ generation: g }: { generation: Generation }) {
  const facts: [string, string | null][] = [
    ["model", g.model && plain(g.model)],
    ["policy version", g.policy_version === null ? null : number(g.policy_version)],
    ["prompt tokens", g.prompt_tokens === null ? null : number(g.prompt_tokens)],
    ["completion tokens", g.completion_tokens === null ? null : number(g.completion_tokens)],
    ["mean logprob", g.mean_logprob === null ? null : number(g.mean_logprob)],
    ["mean advantage", g.mean_advantage === null ? null : number(g.mean_advantage)],
    ["ended by", g.finish_reason && plain(g.finish_reason)],
  ];
  return (
    <Group gap="md" mb={4}>
      {facts.filter(([, value]) => value !== null).map(([name, value]) => (
        <Text key={name} size="xs" component="span">
          <Text span size="xs" c="dimmed">{name}</Text> {value}
        </Text>
      ))}
    </Group>
  );
}
