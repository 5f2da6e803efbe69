/** The parameters that a sweep varies, and the choice of another. */
import { Select, Text } from "@mantine/core";
import { useMemo, useRef, useState } from "react";
import { plain } from "@/components/agent_text.tsx";
import { Section } from "@/components/page.tsx";
import { written } from "@/view/typed.ts";
import type { Form, Problems, Varied } from "./form.ts";
import { ParameterFields } from "./parameter.tsx";
import { type Offered, suggested, unknownAt, valueInRun } from "./parameters.ts";

interface Props {
  form: Form;
  change: (changes: Partial<Form>) => void;
  problems: Problems;
  offered: Offered[];
  counts: Record<string, number | null> | undefined;
}

export function ParametersSection({ form, change, problems, offered, counts }: Props) {
  const [added, setAdded] = useState<string | null>(null);
  const picker = useRef<HTMLInputElement>(null);
  const byPath = useMemo(() => new Map(offered.map((each) => [each.path, each])), [offered]);
  const of = (path: string) => byPath.get(path) ?? unknownAt(path);
  const add = (path: string) => {
    setAdded(path);
    change({ varied: [...form.varied, suggested(of(path), form.method)] });
  };
  const replace = (path: string, changes: Partial<Varied>) =>
    change({ varied: form.varied.map((each) => each.path === path ? { ...each, ...changes } : each) });
  const remove = (path: string) => {
    change({ varied: form.varied.filter((each) => each.path !== path) });
    picker.current?.focus();
  };
  return (
    <Section title="Parameters to vary">
      <ParameterSelect
        ref={picker}
        offered={offered.filter(({ path }) => !form.varied.some((each) => each.path === path))}
        taken={form.varied.map(({ path }) => path)}
        add={add}
      />
      {problems.space && <Text size="sm" c="var(--om-bad)" mt="xs" role="alert">{problems.space}</Text>}
      <div style={{ marginTop: form.varied.length ? 16 : 0 }}>
        {form.varied.map((varied) => (
          <ParameterFields
            key={varied.path}
            varied={varied}
            offered={of(varied.path)}
            change={(changes) => replace(varied.path, changes)}
            remove={() => remove(varied.path)}
            problems={problems}
            count={counts?.[varied.path]}
            isNew={added === varied.path}
          />
        ))}
      </div>
    </Section>
  );
}

interface SelectProps {
  ref: React.Ref<HTMLInputElement>;
  offered: Offered[];
  taken: string[];
  add: (path: string) => void;
}

const MOST_SHOWN = 100;

/** Any path can be typed: a configuration may have what nobody has heard of. */
function ParameterSelect({ ref, offered, taken, add }: SelectProps) {
  const [search, setSearch] = useState("");
  const byPath = useMemo(() => new Map(offered.map((each) => [each.path, each])), [offered]);
  const groups = useMemo(() => {
    const found = new Map<string, { value: string; label: string }[]>();
    for (const { path, group } of offered) {
      found.set(group, [...found.get(group) ?? [], { value: path, label: plain(path) }]);
    }
    return [...found].map(([group, items]) => ({ group, items }));
  }, [offered]);
  const typed = search.trim();
  const isNew = typed !== "" && !byPath.has(typed) && !taken.includes(typed);
  return (
    <Select
      ref={ref}
      searchable
      label="Add a parameter"
      placeholder="Search, or type a path in the configuration, such as hyperparameters.gamma"
      value={null}
      searchValue={search}
      onSearchChange={setSearch}
      data={isNew ? [...groups, { group: "Another path", items: [{ value: typed, label: plain(typed) }] }] : groups}
      limit={MOST_SHOWN}
      maxDropdownHeight={340}
      nothingFoundMessage="It is varied already"
      renderOption={({ option }) => <Choice label={option.label} offered={byPath.get(option.value)} />}
      onChange={(path) => {
        if (path) add(path);
        setSearch("");
      }}
    />
  );
}

function Choice({ label, offered }: { label: string; offered: Offered | undefined }) {
  const value = offered && valueInRun(offered);
  return (
    <div style={{ minWidth: 0 }}>
      <Text size="sm" style={{ overflowWrap: "anywhere" }}>
        <span className="om-mono">{label}</span>
        {value !== undefined && value !== null && (
          <Text span size="xs" c="dimmed" ml={8}>{plain(written(value)).slice(0, 60)}</Text>
        )}
      </Text>
      {offered?.parameter && <Text size="xs" c="dimmed" lineClamp={1}>{offered.parameter.meaning}</Text>}
    </div>
  );
}
