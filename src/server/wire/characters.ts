/** RFC 9110 5.6.2: 1 for the bytes of a token. */
export const TOKEN = tableOf((byte) => (/[!#$%&'*+.^_`|~0-9A-Za-z-]/.test(String.fromCharCode(byte)) ? 1 : 0))

/** RFC 9110 5.5: 1 for the bytes of a field's value; tabs are allowed there, and are left to `node:http`. */
export const VALUE = tableOf((byte) => ((byte >= 0x20 && byte <= 0x7e) || byte >= 0x80 ? 1 : 0))

/** The lower case of an ASCII letter, any other byte as it is. */
export const LOWER = tableOf((byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte))

function tableOf(entry: (byte: number) => number): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => entry(byte))
}
