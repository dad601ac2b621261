/** So many at once do not make a Redis slow that serves decisions meanwhile. */
const BATCH = 64

/** Does it for all, some at a time. */
export async function inBatches<Item>(items: readonly Item[], run: (item: Item) => Promise<void>): Promise<void> {
  for (let from = 0; from < items.length; from += BATCH) await Promise.all(items.slice(from, from + BATCH).map(run))
}
