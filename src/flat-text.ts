/**
 * A copy of a text of bytes, in one piece and in memory of its own. A text that was put together is a tree of its pieces until it is read, and a
 * part of a text keeps all of it in memory.
 */
export function flatText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
