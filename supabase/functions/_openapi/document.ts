/** The OpenAPI document, made from the schemas that check the functions' input. */
import type { Access } from "../_shared/auth.ts";
import type { Operation } from "../_shared/operation.ts";
import { jsonSchema } from "./json_schema.ts";

const SECURITY_SCHEMES = {
  secretKey: {
    type: "apiKey",
    in: "header",
    name: "apikey",
    description:
      "`sb_secret_…` or the older service_role JWT; may also stand in `Authorization: Bearer`. Does everything.",
  },
  publishableKey: {
    type: "apiKey",
    in: "header",
    name: "apikey",
    description:
      "`sb_publishable_…` or the older anon JWT; may also stand in `Authorization: Bearer`. Reads public runs; " +
      "a function that writes answers 401 to it.",
  },
  userToken: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description: "A member's access token, from signing in. Reads the workspace and changes what the member owns.",
  },
};

const SCHEME_OF: Record<Access, keyof typeof SECURITY_SCHEMES> = {
  secret: "secretKey",
  publishable: "publishableKey",
  user: "userToken",
};

const ERRORS: Record<number, [code: string, description: string]> = {
  400: ["invalid_input", "Something in the request is wrong; the message names the field."],
  401: ["unauthorized", "No valid key or token, or one that this function does not take."],
  403: ["forbidden", "Not the caller's to change, or the caller is no member of the workspace."],
  404: ["not_found", "A row that the request names does not exist, or the caller may not see it."],
  405: ["method_not_allowed", "Another method is needed; the header Allow names it."],
  409: ["conflict", "The status cannot go there, or another row has the same key."],
  413: ["too_large", "The body exceeds the limit of 16 MiB."],
  422: ["unprocessable", "What was read is not what is needed; `details` has what was found."],
  429: ["rate_limited", "Another service asks for a pause; try again after Retry-After seconds."],
  500: ["internal", "A failure of the server; the log has it under the request id given."],
  501: ["not_configured", "A setting of the server is missing; the message names it."],
  502: ["upstream_failed", "Another service failed, or refused the server's key for it."],
  503: ["unavailable", "The database cannot be reached; try again after Retry-After seconds."],
  504: ["timeout", "Another service did not answer in time."],
};

const ALWAYS = [401, 405, 500, 503];

const errorSchema = {
  type: "object",
  required: ["error"],
  additionalProperties: false,
  properties: {
    error: {
      type: "object",
      required: ["code", "message", "details"],
      additionalProperties: false,
      properties: {
        code: { type: "string", enum: Object.values(ERRORS).map(([code]) => code) },
        message: { type: "string", description: "What is wrong, where, and the way out." },
        details: { description: "More for a program to read: the fields at fault, a request id; or null." },
      },
    },
  },
};

/** The document of these functions; the same for the same schemas. */
export function openApi(operations: [name: string, operation: Operation][]) {
  return {
    openapi: "3.1.1",
    info: {
      title: "OpenManus-RL functions",
      version: "1",
      description:
        "Record rollouts, turns and metrics of reinforcement learning over HTTP. A request is written whole or not " +
        "at all. Errors have one shape: `{error: {code, message, details}}`.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{
      url: "{project}/functions/v1",
      variables: {
        project: {
          default: "http://127.0.0.1:54321",
          description: "The project's address: https://<project ref>.supabase.co, or that of the embedded stack.",
        },
      },
    }],
    paths: pathsOf(operations),
    components: {
      schemas: { Error: errorSchema },
      securitySchemes: SECURITY_SCHEMES,
      responses: Object.fromEntries(Object.keys(ERRORS).map((status) => [status, errorResponse(Number(status))])),
    },
  };
}

function pathsOf(operations: [name: string, operation: Operation][]) {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const [name, operation] of operations) {
    const methods = paths[`/${name}${operation.path ?? ""}`] ??= {};
    methods[operation.method.toLowerCase()] = describe(operation.name ?? name, operation);
  }
  return paths;
}

function describe(name: string, operation: Operation) {
  const { auth, summary, description, output, errors, example, accepted } = operation;
  // health needs no key and answers a dead database in its own words.
  const statuses = auth.length > 0 ? [...ALWAYS, ...errors].sort() : [405];
  return {
    operationId: name.replaceAll(/-(.)/g, (_, letter) => letter.toUpperCase()),
    summary,
    description,
    security: auth.map((access) => ({ [SCHEME_OF[access]]: [] })),
    ...inputOf(operation),
    responses: {
      200: { description: "Done.", content: json(jsonSchema(output), example.output) },
      ...(accepted && {
        202: { description: accepted.description, content: json(jsonSchema(accepted.output), accepted.example) },
      }),
      ...Object.fromEntries(statuses.map((status) => [status, { $ref: `#/components/responses/${status}` }])),
      ...(name === "health" && {
        503: {
          description: "The database does not answer.",
          content: { "application/json": { schema: jsonSchema(output) } },
        },
      }),
    },
  };
}

interface Property {
  description?: string;
  anyOf?: Property[];
}

/** The fields of an input are in the path, in the body, or in the query. */
function inputOf({ method, path = "", input, bodies, example }: Operation) {
  if (input === null) return {};
  const properties = Object.entries(jsonSchema(input).properties as Record<string, Property>);
  const inPath = properties.filter(([name]) => path.includes(`{${name}}`));
  const others = properties.filter((property) => !inPath.includes(property));
  const inQuery = method !== "POST" || bodies ? others : [];
  const parameters = [
    ...inPath.map(([name, property]) => parameter(name, property, "path", example.input)),
    ...inQuery.map(([name, property]) => parameter(name, property, "query", example.input)),
  ];
  return {
    ...(parameters.length > 0 && { parameters }),
    ...(bodies && { requestBody: { required: true, content: contentOf(bodies) } }),
    ...(!bodies && method === "POST" && others.length > 0 && {
      requestBody: { required: true, content: json(jsonSchema(input), example.input) },
    }),
  };
}

function parameter(name: string, property: Property, place: "path" | "query", example: Record<string, unknown>) {
  // A parameter that is left out is not there; null is for bodies.
  const { description, ...schema } = property.anyOf?.[0] ?? property;
  return { name, in: place, required: place === "path", description, schema, example: example[name] };
}

function contentOf(bodies: NonNullable<Operation["bodies"]>) {
  return Object.fromEntries(
    Object.entries(bodies).map(([type, { schema, example }]) => [type, { schema: jsonSchema(schema), example }]),
  );
}

function json(schema: unknown, example: unknown) {
  return { "application/json": { schema, example } };
}

function errorResponse(status: number) {
  const [code, description] = ERRORS[status];
  const example = { error: { code, message: description, details: null } };
  return { description, content: json({ $ref: "#/components/schemas/Error" }, example) };
}
