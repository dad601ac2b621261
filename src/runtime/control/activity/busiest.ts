/** The `count` items with the highest scores above 0, the highest first, in one pass over all of them. */
export function busiest<Item>(items: Iterable<Item>, count: number, scoreOf: (item: Item) => number): Item[] {
  const found: { readonly item: Item; readonly score: number }[] = []
  for (const item of items) {
    const score = scoreOf(item)
    if (score <= 0 || (found.length === count && score <= found[count - 1]!.score)) continue
    let place = Math.min(found.length, count - 1)
    while (place > 0 && found[place - 1]!.score < score) place--
    found.splice(place, 0, { item, score })
    if (found.length > count) found.pop()
  }
  return found.map(({ item }) => item)
}
