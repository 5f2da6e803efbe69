/** Reading request bodies. */

/** The body as a JSON object; an empty body is an empty one, and null says that it is something else. */
export async function readJsonObject(request: Request): Promise<Record<string, unknown> | null> {
  try {
    const body = JSON.parse((await request.text()) || "{}");
    return typeof body === "object" && !Array.isArray(body) ? body : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
