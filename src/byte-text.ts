/** Bytes as a text with one letter a byte. */
export function byteText(bytes: Buffer | string): string {
  return typeof bytes === 'string' ? bytes : bytes.toString('latin1')
}
