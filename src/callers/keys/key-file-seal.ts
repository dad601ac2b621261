import { crc32 } from 'node:zlib'

/**
 * The first line of a file of keys: how many bytes and lines the file must have, with a checksum of all lines after this one. It is overwritten in place after each
 * change, and says only what is on the disk already. A file that has more was left by a process that was killed; one that has less was cut, by a disk, a copy
 * or an editor. Cuts are at the end of a file, so a seal there would be cut off with the rest.
 *
 * All seals have the same length and lie in the first sector, which a disk writes whole or not at all.
 */
export interface KeyFileSeal {
  readonly bytes: number
  /** Without the first one. */
  readonly lines: number
  readonly sum: number
  /** What was found missing, until an operator has acknowledged it. */
  readonly lost: LostTail | undefined
}

export interface LostTail {
  /** Both are 0 if the file was empty: nobody knows what it had. */
  readonly bytes: number
  readonly lines: number
}

/** Earlier builds began files with this. */
export const OLD_HEADER = '{"edge_keys":1}'
const FORM =
  /^\{"edge_keys":2,"bytes":"(\d{14})","lines":"(\d{12})","sum":"([0-9a-f]{8})","lost":"(no|up)","lost_bytes":"(\d{14})","lost_lines":"(\d{12})"\}$/

export function sealLine({ bytes, lines, sum, lost }: KeyFileSeal): Buffer {
  const json = {
    edge_keys: 2,
    bytes: padded(bytes, 14),
    lines: padded(lines, 12),
    sum: sum.toString(16).padStart(8, '0'),
    lost: lost === undefined ? 'no' : 'up',
    lost_bytes: padded(lost?.bytes ?? 0, 14),
    lost_lines: padded(lost?.lines ?? 0, 12),
  }
  return Buffer.from(lineOf(JSON.stringify(json)))
}

/** Returns undefined if the line is not a seal. */
export function readSeal(text: string): KeyFileSeal | undefined {
  const [, bytes, lines, sum, lost, lostBytes, lostLines] = FORM.exec(text) ?? []
  if (bytes === undefined) return undefined
  return {
    bytes: Number(bytes),
    lines: Number(lines),
    sum: Number.parseInt(sum!, 16),
    lost: lost === 'no' ? undefined : { bytes: Number(lostBytes), lines: Number(lostLines) },
  }
}

/** Returns the seal of a file that has these lines more. */
export function longerSeal(seal: KeyFileSeal, bytes: Buffer, lines: number): KeyFileSeal {
  return { ...seal, bytes: seal.bytes + bytes.length, lines: seal.lines + lines, sum: crc32(bytes, seal.sum) }
}

export function isSameContent(one: KeyFileSeal, other: KeyFileSeal): boolean {
  return one.bytes === other.bytes && one.lines === other.lines && one.sum === other.sum
}

export function lineOf(text: string): string {
  return `${checksumOf(text)}${text}\n`
}

/** Eight digits and a space. */
export function checksumOf(text: string | Buffer): string {
  return `${crc32(text).toString(16).padStart(8, '0')} `
}

function padded(count: number, digits: number): string {
  return String(count).padStart(digits, '0')
}

const UNSEALED: KeyFileSeal = { bytes: 0, lines: 0, sum: 0, lost: undefined }
/** A file that has no line but its seal. */
export const EMPTY: KeyFileSeal = { ...UNSEALED, bytes: sealLine(UNSEALED).length }
