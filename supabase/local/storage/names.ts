/** Which names buckets and objects may have: the characters that hosted Storage takes. */
import { invalidKey, invalidRequest } from "./errors.ts";

const KEY = /^[\w/!\-.*'() &$@=;:+,?]+$/;
const BUCKET = /^[\w!\-.*'() &$@=;:+,?]+$/;
const MAX_KEY_LENGTH = 1024;
const MAX_BUCKET_LENGTH = 100;

/** Refuse a key that is empty, too long, of other characters, or that steps out of its folder. */
export function checkKey(key: string): string {
  const steps = key.split("/").some((part) => part === "" || part === "." || part === "..");
  if (!KEY.test(key) || key.length > MAX_KEY_LENGTH || steps) throw invalidKey(key);
  return key;
}

export function checkBucketName(name: unknown): string {
  const valid = typeof name === "string" && BUCKET.test(name) && name.trim() === name &&
    name.length <= MAX_BUCKET_LENGTH && name !== "." && name !== "..";
  if (!valid) throw invalidRequest(`Bucket name invalid: ${JSON.stringify(name ?? null)}`);
  return name;
}

/** Whether a bucket takes this media type; `image/*` takes every image, no list takes everything. */
export function mimeTypeAllowed(type: string, allowed: string[] | null): boolean {
  if (!allowed || allowed.length === 0) return true;
  const essence = type.split(";")[0].trim().toLowerCase();
  return allowed.some((pattern) => {
    const wanted = pattern.toLowerCase();
    return wanted === "*/*" || wanted === essence ||
      (wanted.endsWith("/*") && essence.startsWith(wanted.slice(0, -1)));
  });
}
