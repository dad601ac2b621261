/** How many code points a text has. A pair that was split between two texts still counts once. */
export function characters(text: string): number {
  let count = text.length
  for (let i = 0; i < text.length; i++) if ((text.charCodeAt(i) & 0xfc00) === 0xdc00) count--
  return count
}

/** The same for what may be no text at all. */
export function charactersIn(value: unknown): number {
  return typeof value === 'string' ? characters(value) : 0
}
