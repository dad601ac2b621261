/** A character of a header field is a byte, in this API as in HTTP; text is sent in UTF-8. */
export function toFieldBytes(text: string): string {
  let bytes = ''
  for (const byte of new TextEncoder().encode(text)) bytes += String.fromCharCode(byte)
  return bytes
}

/** The text that such bytes stand for; what is not UTF-8 is shown as it is. */
export function fromFieldBytes(shown: string): string {
  if (!/[^\0-\x7f]/.test(shown) || /[^\0-\xff]/.test(shown)) return shown
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(shown, (character) => character.charCodeAt(0)))
  } catch {
    return shown
  }
}
