/**
 * Returns the known word that `word` looks like a misspelling of, if there is one. Never returns a word with another meaning: not if a whole
 * part differs (`tokens_per_month`, `min_…` for `max_…`), nor if something was added before or after it (`notHosts`).
 */
export function closest(word: string, known: Iterable<string>): string | undefined {
  return new KnownWords(known).closest(word)
}

/** A list of known words that is searched more than once. */
export class KnownWords {
  readonly #words: readonly Word[]

  constructor(known: Iterable<string>) {
    this.#words = Array.from(known, wordOf)
  }

  closest(word: string): string | undefined {
    if (word.length > MAX_LENGTH || !NAME.test(word)) return undefined
    const asked = wordOf(word)
    let best: string | undefined
    let bestDistance = NO_LIKENESS
    for (const candidate of this.#words) {
      const distance = distanceTo(asked, candidate)
      if (distance < bestDistance) {
        best = candidate.text
        bestDistance = distance
      }
    }
    return best
  }
}

interface Word {
  readonly text: string
  readonly folded: string
  readonly parts: readonly string[]
}

function wordOf(text: string): Word {
  return { text, folded: fold(text), parts: partsOf(text) }
}

const NO_LIKENESS = Number.POSITIVE_INFINITY

/** Longer texts are not taken for misspellings. */
const MAX_LENGTH = 64

/** Names start with a letter or digit: `!hosts` and `-hosts` negate, and get no suggestion. */
const NAME = /^[a-z0-9][a-z0-9_. -]*$/i

function distanceTo(word: Word, known: Word): number {
  if (word.folded === known.folded) return 0
  if (startsAlike(word.folded, known.folded)) return 0.5
  if (isOneEdit(word.folded, known.folded)) return known.folded.length >= 3 ? 1 : NO_LIKENESS
  const { parts } = word
  if (parts.length !== known.parts.length || parts.length < 2) return NO_LIKENESS
  let misspelled = 0
  for (const [i, part] of known.parts.entries()) {
    if (parts[i] === part) continue
    if (!isOneEdit(parts[i]!, part)) return NO_LIKENESS
    misspelled++
  }
  return misspelled
}

/** `path_prefix`, `PathPrefix` and `path-prefix` count as the same word. */
function fold(word: string): string {
  return word.toLowerCase().replace(/[^a-z0-9]/g, '')
}

function partsOf(text: string): string[] {
  return text
    .replace(/[A-Z]+/g, '_$&')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '')
}

function startsAlike(word: string, known: string): boolean {
  return word.length >= 3 && known.startsWith(word)
}

/** Whether two different texts differ by only one character: inserted, left out, replaced, or swapped with its neighbour. */
function isOneEdit(a: string, b: string): boolean {
  if (a.length > b.length) return isOneEdit(b, a)
  if (b.length - a.length > 1) return false
  let i = 0
  while (i < a.length && a[i] === b[i]) i++
  if (a.length < b.length) return a.slice(i) === b.slice(i + 1)
  if (a.slice(i + 1) === b.slice(i + 1)) return true
  return a[i] === b[i + 1] && a[i + 1] === b[i] && a.slice(i + 2) === b.slice(i + 2)
}
