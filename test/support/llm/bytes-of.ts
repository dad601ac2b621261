/** The bytes that a filter passes on, which may be a text with one letter a byte. */
export function bytesOf(passed: Buffer | string): Buffer {
  return typeof passed === 'string' ? Buffer.from(passed, 'latin1') : passed
}
