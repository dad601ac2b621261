/** Few enough at once that decisions on the same Redis do not slow down. */
const BATCH = 64

/** Runs it for all items, a batch at a time. */
export async function inBatches<Item>(items: readonly Item[], run: (item: Item) => Promise<void>): Promise<void> {
  for (let from = 0; from < items.length; from += BATCH) await Promise.all(items.slice(from, from + BATCH).map(run))
}
