/** Who did it, as far as that is known. */
export function agentAndModel({ agent, model }: { agent: string | null; model: string | null }): string | null {
  return [agent, model].filter((part) => part !== null).join(" · ") || null;
}
