/** Print what src/api/contract.ts says as JSON Schemas, for the test that holds the database to it. */
import { toJsonSchema } from "@valibot/to-json-schema";
import type { GenericSchema } from "valibot";
import { filters, results, views } from "../src/api/contract.ts";

function schemasOf(schemas: Record<string, GenericSchema>) {
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => [
      name,
      toJsonSchema(schema, {
        target: "draft-2020-12",
        // Any JSON at all.
        overrideSchema: ({ valibotSchema }) => (valibotSchema.type === "custom" ? {} : undefined),
      }),
    ]),
  );
}

console.log(JSON.stringify({ results: schemasOf(results), filters: schemasOf(filters), views: schemasOf(views) }));
