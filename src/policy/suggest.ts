/**
 * The known word that `word` looks like a misspelling of, if there is one. Never one with another meaning: not if a whole word differs
 * (`tokens_per_month`, `min_…` for `max_…`), nor if something was added before or after it (`notHosts`).
 */
export function closest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  let bestDistance = Number.POSITIVE_INFINITY
  for (const candidate of known) {
    const distance = distanceTo(word, candidate)
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

const NO_LIKENESS = Number.POSITIVE_INFINITY

/** Longer words are no misspellings, and a comparison takes time in the product of the lengths. */
const MAX_LENGTH = 64

/** `!hosts` and `-hosts` negate. */
const NAME = /^[a-z0-9][a-z0-9_. -]*$/i

function distanceTo(word: string, known: string): number {
  if (word.length > MAX_LENGTH || !NAME.test(word)) return NO_LIKENESS
  const [folded, other] = [fold(word), fold(known)]
  if (folded === other) return 0
  if (startsAlike(folded, other)) return 0.5
  const distance = editDistance(folded, other)
  if (distance === 1) return other.length >= 3 ? 1 : NO_LIKENESS
  const [words, otherWords] = [wordsOf(word), wordsOf(known)]
  if (words.length !== otherWords.length || words.length < 2) return NO_LIKENESS
  return words.every((part, i) => editDistance(part, otherWords[i]!) <= 1) ? distance : NO_LIKENESS
}

/** `path_prefix`, `PathPrefix` and `path-prefix` count as the same word. */
function fold(word: string): string {
  return word.toLowerCase().replace(/[^a-z0-9]/g, '')
}

function wordsOf(text: string): string[] {
  return text
    .replace(/[A-Z]+/g, '_$&')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '')
}

function startsAlike(word: string, known: string): boolean {
  return word.length >= 3 && known.startsWith(word)
}

/** Insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
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
