/** Which addresses are of the public internet: those of no private, local, shared, reserved or documentation network. */

/** First address and length of the networks that are not public, as IANA's registries of special purposes list them. */
const RESERVED_V4: [string, number][] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
];

/** Whether an address, as a name server or a URL gives it, is public. What is no address is not. */
export function isPublic(address: string): boolean {
  const four = parseV4(address);
  if (four !== null) return isPublicV4(four);
  const six = parseV6(address);
  return six !== null && isPublicV6(six);
}

function isPublicV4(address: number): boolean {
  return !RESERVED_V4.some(([first, length]) => (address ^ parseV4(first)!) >>> (32 - length) === 0);
}

function isPublicV6(groups: number[]): boolean {
  const [first, second] = groups;
  const embedded = (index: number) => isPublicV4(((groups[index]! << 16) | groups[index + 1]!) >>> 0);
  // NAT64 and 6to4 lead to an IPv4 address.
  if (
    first === 0x64 && second === 0xff9b &&
    groups.slice(2, 6).every((group) => group === 0)
  ) return embedded(6);
  if (first === 0x2002) return embedded(1);
  // Only 2000::/3 is for the internet; this leaves out ::1, mapped IPv4, fc00::/7, fe80::/10, ff00::/8 and the rest.
  if (first! >> 13 !== 1) return false;
  // 2001::/23 is for protocols such as Teredo; 2001:db8::/32 and 3fff::/20 are for documentation.
  if (first === 0x2001 && (second! < 0x200 || second === 0xdb8)) return false;
  return !(first === 0x3fff && second! < 0x1000);
}

function parseV4(text: string): number | null {
  if (!/^(\d{1,3}\.){3}\d{1,3}$/.test(text)) return null;
  const parts = text.split(".").map(Number);
  if (parts.some((part) => part > 255)) return null;
  return parts.reduce((address, part) => ((address << 8) | part) >>> 0, 0);
}

function parseV6(text: string): number[] | null {
  let written: string;
  try {
    // The parser of URLs knows every way to write an address, and gives one.
    written = new URL(`http://[${text}]/`).hostname.slice(1, -1);
  } catch {
    return null;
  }
  const [head, tail] = written.split("::").map((part) =>
    part.split(":").filter(Boolean).map((hex) => parseInt(hex, 16))
  );
  if (tail === undefined) return head!;
  return [...head!, ...new Array(8 - head!.length - tail.length).fill(0), ...tail];
}
