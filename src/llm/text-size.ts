/** Code points in a text. A surrogate pair that is split between two texts counts once. */
export function characters(text: string): number {
  let count = text.length
  for (let i = 0; i < text.length; i++) if ((text.charCodeAt(i) & 0xfc00) === 0xdc00) count--
  return count
}

/** The same for a value that may not be a string. */
export function charactersIn(value: unknown): number {
  return typeof value === 'string' ? characters(value) : 0
}
