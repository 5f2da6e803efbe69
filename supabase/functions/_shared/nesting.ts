/** How deep JSON is nested, found without parsing it: parsers take long over millions of brackets. */

/** More than anyone means, and less than any parser minds. */
export const MAX_NESTING = 512;

const [QUOTE, BACKSLASH] = [0x22, 0x5c];

/** Whether arrays and objects stand in each other deeper than this; brackets in strings are text. */
export function isNestedDeeper(json: Uint8Array, limit: number = MAX_NESTING): boolean {
  let depth = 0;
  let isText = false;
  for (let i = 0; i < json.length; i++) {
    const byte = json[i];
    if (isText) {
      if (byte === BACKSLASH) i++;
      else if (byte === QUOTE) isText = false;
    } else if (byte === QUOTE) isText = true;
    else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > limit) return true;
    } else if (byte === 0x5d || byte === 0x7d) depth--;
  }
  return false;
}
