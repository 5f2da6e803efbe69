/** More lines than this cannot be told apart. */
export const MOST_COMPARED = 10;
