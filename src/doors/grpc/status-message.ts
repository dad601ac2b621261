/** Longer ones are cut. Many clients take heads of 8 KiB at most. */
const MAX_CHARACTERS = 1024
const PLAIN = /^[ -$&-~]*$/

/** A status message as the field `grpc-message` has it: UTF-8, percent-encoded but for printable ASCII. */
export function encodedStatusMessage(message: string): string {
  let encoded = ''
  for (const character of message.slice(0, MAX_CHARACTERS)) {
    const piece = PLAIN.test(character) ? character : percentEncoded(character)
    if (encoded.length + piece.length > MAX_CHARACTERS) break
    encoded += piece
  }
  return encoded
}

function percentEncoded(character: string): string {
  return Array.from(Buffer.from(character, 'utf8'), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}
