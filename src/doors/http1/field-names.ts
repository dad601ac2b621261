// Fields that the fast wire must know by name, in lower case.
export const HOST = bytesOf('host')
export const CONNECTION = bytesOf('connection')
export const CONTENT_LENGTH = bytesOf('content-length')
export const ORIGINAL_METHOD = bytesOf('x-original-method')
export const ORIGINAL_URI = bytesOf('x-original-uri')
export const ORIGINAL_HOST = bytesOf('x-original-host')
/** Whoever sends one of these wants something else than a plain answer on a connection that is kept. */
export const FOREIGN = ['te', 'expect', 'upgrade', 'trailer', 'proxy-connection', 'transfer-encoding'].map(bytesOf)

/** A byte a character. */
export function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0))
}
