/** The functions there are: a folder each, and an entry each in config.toml, which says to hosted projects how to serve it. */
import type { Operation } from "../_shared/operation.ts";

const FOLDER = new URL("../", import.meta.url);
const CONFIG = new URL("../../config.toml", import.meta.url);

/** The names in config.toml, in their order; an error names every folder without an entry and every entry without a folder. */
export async function functionNames(): Promise<string[]> {
  const listed = [...(await Deno.readTextFile(CONFIG)).matchAll(/^\[functions\.([\w-]+)\]$/gm)].map(([, name]) => name);
  const folders: string[] = [];
  for await (const { isDirectory, name } of Deno.readDir(FOLDER)) {
    // What they share is in folders whose names begin with an underscore, as the Supabase CLI has it.
    if (isDirectory && !name.startsWith("_")) folders.push(name);
  }
  const problems = [
    ...folders.filter((name) => !listed.includes(name)).map((name) => `config.toml has no [functions.${name}]`),
    ...listed.filter((name) => !folders.includes(name)).map((name) => `functions/${name} is not there`),
  ];
  if (problems.length > 0) throw new Error(problems.sort().join("; "));
  return listed;
}

/** What each function says of itself in its schema.ts: one operation, or several at paths below its own. */
export async function readOperations(names: string[]): Promise<[name: string, operation: Operation][]> {
  const modules = names.map(async (name) => {
    const { operation, operations = [operation] } = await import(new URL(`${name}/schema.ts`, FOLDER).href);
    if (!operations[0]) throw new Error(`functions/${name}/schema.ts exports no operation`);
    return operations.map((one: Operation) => [name, one] as const);
  });
  return (await Promise.all(modules)).flat();
}

/** The gateway's list: a bundle needs static imports. */
export function gatewayModule(names: string[]): string {
  const sorted = [...names].sort();
  const variable = (name: string) => name.replaceAll(/-(.)/g, (_, letter) => letter.toUpperCase());
  const entry = (name: string) => (name === variable(name) ? name : `"${name}": ${variable(name)}`);
  return [
    "/** The edge functions that the gateway serves. Written by functions/_openapi/generate.ts; do not edit. */",
    ...sorted.map((name) => `import ${variable(name)} from "../functions/${name}/index.ts";`),
    "",
    "export interface EdgeFunction {",
    "  fetch(request: Request): Response | Promise<Response>;",
    "}",
    "",
    "export const functions: Record<string, EdgeFunction> = {",
    ...sorted.map((name) => `  ${entry(name)},`),
    "};",
    "",
  ].join("\n");
}
