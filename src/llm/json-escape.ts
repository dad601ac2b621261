/** RFC 8259 7: the UTF-16 unit that a letter after a backslash stands for; 0 for `u` and for letters that may not follow. */
export const ESCAPED_UNITS = new Uint16Array(256)
for (const [letter, unit] of ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t']) {
  ESCAPED_UNITS[letter!.charCodeAt(0)] = unit!.charCodeAt(0)
}

/** The value of a hexadecimal digit, or -1. */
export function hexValue(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const lower = byte | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}
