/** Lists that are read page by page, the latest first. */

/** The last row of a page: where the next one begins. */
export interface Place {
  time: string;
  id: string;
}

/** What comes after a row, as a filter of the API: what is earlier, and of the same time what is further on by its id. */
export function after(column: string, { time, id }: Place, ids: "ascending" | "descending"): string {
  return `${column}.lt."${time}",and(${column}.eq."${time}",id.${ids === "ascending" ? "gt" : "lt"}.${id})`;
}

/** Where the page after this one begins; null after the last, which is not full. */
export function placeAfter<Row extends { id: string }>(
  page: Row[],
  size: number,
  timeOf: (row: Row) => string,
): Place | null {
  const last = page.at(-1);
  return last && page.length >= size ? { time: timeOf(last), id: last.id } : null;
}
