import { type Moment, SECTION_HEADER_BYTES } from '../../../src/store/state/state-format.ts'
import { sealed } from './version-1.ts'

const HEADER_BYTES = 40
const DIGEST_BYTES = 32

/** A section as it is in a file. */
export function sectionBytes(type: number, payload: Uint8Array, { wallMs, nowMs }: Moment = { wallMs: 0, nowMs: 0 }): Buffer {
  const header = Buffer.alloc(SECTION_HEADER_BYTES)
  header.writeUInt32LE(type, 0)
  header.writeUInt32LE(payload.length, 4)
  header.writeDoubleLE(wallMs, 8)
  header.writeDoubleLE(nowMs, 16)
  return Buffer.concat([header, payload])
}

/** The payload of a section of records; what a record lacks is something that any record may have. */
export function recordsPayload(...records: readonly { level?: number; at?: number; size?: number; rate?: number }[]): Buffer {
  const payload = Buffer.alloc(records.length * 32)
  for (const [i, { level = 5, at = 0, size = 10, rate = 0 }] of records.entries()) {
    payload.writeInt32LE((i + 1) * 0x1_0001, i * 32)
    payload.writeDoubleLE(level, i * 32 + 8)
    payload.writeDoubleLE(at, i * 32 + 16)
    payload.writeFloatLE(size, i * 32 + 24)
    payload.writeFloatLE(rate, i * 32 + 28)
  }
  return payload
}

/** The file with more sections behind its own, and a checksum to fit. */
export function withSections(file: Buffer, ...sections: readonly Buffer[]): Buffer {
  const endAt = file.length - DIGEST_BYTES - SECTION_HEADER_BYTES
  return sealed(Buffer.concat([file.subarray(0, endAt), ...sections, file.subarray(endAt, -DIGEST_BYTES)]))
}

/** All sections of a file of version 2, but for the one that ends it. */
export function sectionsOf(file: Buffer): { readonly type: number; readonly bytes: Buffer }[] {
  const sections: { type: number; bytes: Buffer }[] = []
  for (let at = HEADER_BYTES; file.readUInt32LE(at) !== 0; ) {
    const end = at + SECTION_HEADER_BYTES + file.readUInt32LE(at + 4)
    sections.push({ type: file.readUInt32LE(at), bytes: file.subarray(at, end) })
    at = end
  }
  return sections
}
