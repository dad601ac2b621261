/**
 * Percent-encoding (RFC 3986 2.1), as backends decode it. The input has one character per byte. What is not an escape stays as it is, and
 * invalid UTF-8 becomes U+FFFD, so every text has a value, and all spellings of a value give the same one.
 */
export function percentDecoded(text: string): string {
  return utf8Text(unescapedBytes(text))
}

/** The bytes that a text stands for, one character each. */
export function unescapedBytes(text: string): string {
  if (!text.includes('%')) return text
  return text.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

/** A text with characters beyond Latin-1, as a caller of the library may pass it, is decoded already. */
function utf8Text(bytes: string): string {
  return /[\x80-\xff]/.test(bytes) && !/[^\0-\xff]/.test(bytes) ? Buffer.from(bytes, 'latin1').toString('utf8') : bytes
}
