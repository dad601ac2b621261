import type { Random } from '../../random/random.ts'

/** The text in pieces, cut in so many places at most. None is empty. */
export function cut(random: Random, text: string, count: number): string[] {
  const places = Array.from({ length: count }, () => random.below(text.length + 1)).sort((a, b) => a - b)
  return [0, ...places].map((start, i) => text.slice(start, places[i] ?? text.length)).filter((piece) => piece !== '')
}
