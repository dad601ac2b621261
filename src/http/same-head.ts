const LF = 0x0a

/**
 * Whether the bytes begin with this head, its blank line included. Where another head ends is told by two bytes for most, so that asking costs
 * little.
 */
export function isSameHead(head: string, bytes: Buffer, from: number, end: number): boolean {
  const headEnd = from + head.length
  if (headEnd > end || bytes[headEnd - 1] !== LF || bytes[headEnd - 3] !== LF) return false
  return bytes.toString('latin1', from, headEnd) === head
}
