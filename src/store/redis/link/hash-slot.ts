import { SLOTS } from './cluster-map.ts'

/** The cluster slot of a key: CRC16 (XMODEM) of what is between its first { and the next }, or of the whole key where that is empty. */
export function hashSlot(key: string): number {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open + 1)
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key
  return crc16(hashed) % SLOTS
}

/** Of the text's UTF-8 bytes. Keys are ASCII, except for the prefix that an operator sets. */
function crc16(text: string): number {
  let crc = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code > 0x7f) return crc16OfBytes(Buffer.from(text))
    crc = step(crc, code)
  }
  return crc
}

function crc16OfBytes(bytes: Uint8Array): number {
  let crc = 0
  for (const byte of bytes) crc = step(crc, byte)
  return crc
}

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc & 0xffff
})

function step(crc: number, byte: number): number {
  return ((crc << 8) & 0xffff) ^ TABLE[(crc >> 8) ^ byte]!
}
