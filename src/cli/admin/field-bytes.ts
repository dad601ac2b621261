/** Keys whose values the API has as the client sent them: one character for each byte. */
const BYTE_KEYS = /^(?:header:|cookie:|bearer$)/i

/** A value of this key, as the API expects it: clients send text in UTF-8. */
export function valueBytes(key: string, text: string): string {
  return BYTE_KEYS.test(key) ? fieldBytes(text) : text
}

/** The value of a header field, one character for each byte. */
export function fieldBytes(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/** What the API shows, as text again: where its characters are bytes of UTF-8, what they mean. */
export function textOfBytes(shown: string): string {
  if (/[\u0100-\uffff]/.test(shown)) return shown
  const text = Buffer.from(shown, 'latin1').toString()
  return text.includes('\ufffd') ? shown : text
}
