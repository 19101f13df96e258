// Two lists beside each other, as a side by side comparison of texts has them.

/** A line of both sides; one is undefined where the other has a line more. */
export type Line<T> = [before: T | undefined, after: T | undefined];

/** Indices of a longest rising subsequence of different numbers. */
function longestRising(numbers: number[]): Set<number> {
  const ends: number[] = []; // of each length the index of the smallest number that ends a subsequence
  const previous: number[] = [];
  numbers.forEach((number, index) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((numbers[ends[middle] as number] as number) < number) low = middle + 1;
      else high = middle;
    }
    previous[index] = low ? (ends[low - 1] as number) : -1;
    ends[low] = index;
  });
  const found = new Set<number>();
  for (let index = ends.at(-1) ?? -1; index >= 0; index = previous[index] as number) found.add(index);
  return found;
}

/** The lines of both lists, in their orders: those with the same key are beside each other, as many as possible. Keys are unique in a list. */
export function linesOf<T>(before: T[], after: T[], keyOf: (item: T) => string): Line<T>[] {
  const places = new Map(after.map((item, place) => [keyOf(item), place]));
  const shared = before.flatMap((item, index) => {
    const place = places.get(keyOf(item));
    return place === undefined ? [] : [{ index, place }];
  });
  const rising = longestRising(shared.map(({ place }) => place));
  const lines: Line<T>[] = [];
  let [left, right] = [0, 0];
  for (const { index, place } of [...shared.filter((_, number) => rising.has(number)), { index: before.length, place: after.length }]) {
    while (left < index) lines.push([before[left++], undefined]);
    while (right < place) lines.push([undefined, after[right++]]);
    if (left < before.length) lines.push([before[left++], after[right++]]);
  }
  return lines;
}
