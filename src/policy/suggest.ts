/** The known word that `word` looks like a misspelling of, if there is one. */
export function closest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  let bestDistance = Number.POSITIVE_INFINITY
  const folded = fold(word)
  for (const candidate of known) {
    const other = fold(candidate)
    const distance = startsAlike(folded, other) ? 0.5 : editDistance(folded, other)
    if (distance <= Math.max(1, Math.floor(other.length / 3)) && distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

/** `path_prefix`, `PathPrefix` and `path-prefix` are one word to a person in a hurry. */
function fold(word: string): string {
  return word.toLowerCase().replace(/[^a-z0-9]/g, '')
}

function startsAlike(word: string, known: string): boolean {
  return word.length >= 3 && known.startsWith(word) && word.length < known.length
}

/** Insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > b.length) return Number.POSITIVE_INFINITY
  let beforePrevious: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      let cost = Math.min(replaced, previous[j]! + 1, row[j - 1]! + 1)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) cost = Math.min(cost, beforePrevious[j - 2]! + 1)
      row.push(cost)
    }
    beforePrevious = previous
    previous = row
  }
  return previous[b.length]!
}
