/** A status message as the field `grpc-message` has it: UTF-8, percent-encoded but for printable ASCII. */
export function encodedStatusMessage(message: string): string {
  if (PLAIN.test(message)) return message
  let encoded = ''
  for (const byte of Buffer.from(message, 'utf8')) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== PERCENT
    encoded += isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return encoded
}

const PERCENT = 0x25
const PLAIN = /^[ -$&-~]*$/
