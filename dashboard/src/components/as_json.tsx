import { Anchor } from "@mantine/core";
import { useState } from "react";
import { plain } from "./agent_text.tsx";

/** What a form becomes, to read where one likes. */
export function AsJson({ title, value }: { title: string; value: unknown }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <div>
      <Anchor component="button" type="button" size="sm" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? title : `${title} as JSON…`}
      </Anchor>
      {isOpen && <pre className="om-agent-text">{plain(JSON.stringify(value, null, 2))}</pre>}
    </div>
  );
}
